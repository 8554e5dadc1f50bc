// The facts of every op, listed by the file of this folder that defines them.
#pragma once

#include "graph/facts.h"

namespace moesh::graph::ops {

// structure.cc: roots, requested layouts, bodies.
extern const OpFacts kInput, kParameter, kConstraint, kStageState, kRepeat, kRegion, kReshard;
// elementwise.cc
extern const OpFacts kUnary, kUnaryGrad, kBinary, kCast, kChain;
// shaping.cc
extern const OpFacts kBroadcast, kReduce, kReshape, kTranspose, kSlice, kConcat, kPad, kFill;
// products.cc
extern const OpFacts kEinsum, kGroupedMatmul, kGroupedBias, kGroupedOuter, kGroupedSum;
// layers.cc
extern const OpFacts kSoftmax, kSoftmaxGrad, kRmsNorm, kRmsNormGrad, kRowDot, kRmsNormOfDots, kRmsNormGradOfDots, kRope, kTemper, kEmbed,
    kEmbedGrad, kEmbedAdd;
// attention.cc
extern const OpFacts kAttention, kAttentionGrad, kHighest, kCacheWrite;
// indexing.cc
extern const OpFacts kDetach, kIndexScores, kIndexScoresGrad, kChooseKeys, kChosenRows, kAttentionShares, kIndexLoss, kIndexLossGrad;
// linear_attention.cc
extern const OpFacts kCausalConv, kCausalConvGrad, kDeltaRule, kDeltaRuleGrad;
// streams.cc
extern const OpFacts kDoublyStochastic, kDoublyStochasticGrad;
// pooling.cc
extern const OpFacts kWindows, kNewWindows, kWindowRows, kPool, kPoolGrad;
// loss.cc
extern const OpFacts kCrossEntropy, kCrossEntropyGrad, kVocabScores, kCrossEntropyOfScores, kPositions, kVocabLoss,
    kVocabLogs, kVocabLossGrad;
// routing.cc
extern const OpFacts kRandomScores, kTopK, kTopKGrad, kGiveExperts, kWeigh, kSpread, kSpreadGrad, kExpertLoad;
// slots.cc
extern const OpFacts kSlotMask, kSlots, kFillSlots, kEmptySlots, kSlotProducts;
// rows.cc: ops of regions.
extern const OpFacts kDeviceIndex, kGather, kAllSum, kOwnOnce, kSortSlots, kFetchRows, kReturnRows, kWeightedRowsGrad, kFetchedRowsGrad,
    kPlanExchange, kExchangeRows, kListTokens, kSumRows, kScatterRows;
// learning.cc
extern const OpFacts kSumSquares, kAdamUpdate, kSgdUpdate, kMomentumUpdate, kBalanceUpdate, kClipUpdate;

}  // namespace moesh::graph::ops
