// Data: where the tokens come from, and the tokenizer that makes them.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpChatTemplate = "template of chats, which moesh does not do";
constexpr std::string_view kHelpTfdsLoader = "data set of the tfds loader";
constexpr std::string_view kHelpPaddingBatches = "rounds the number of batches up with empty ones";
constexpr std::string_view kHelpHuggingFaceLoader = "data set of the Hugging Face loader";
constexpr std::string_view kHelpGrainLoader = "setting of the Grain loader";
constexpr std::string_view kHelpPathways = "one controller for a whole cloud of machines";
constexpr std::string_view kHelpOlmoLoader = "setting of the OLMo loader";

constexpr Key kData[] = {
    {"dataset_type", choice, "tfds", "synthetic|text|jsonl|tokens|megatron|parquet|tfds|!hf|!grain|!c4_mlperf|!olmo_grain", used,
     "synthetic: one fixed batch; text, jsonl: files of text; tokens, megatron: files of token ids; no parquet"},
    {"dataset_path", text, "", "", used,
     "file or folder, read with all below it; for megatron what .bin and .idx begin with; several: A,0.7;B,0.3"},
    {"token_bytes", choice, "detect", "detect|2|4", used,
     "moesh's own: bytes of a token id in files of dataset_type=tokens; detect tells by their sizes and ids"},
    {"train_data_columns", texts, "[text]", "", used, "field of a line of dataset_type=jsonl that holds its document"},
    {"eval_dataset_path", text, "", "", used,
     "moesh's own: file or folder of the validation set, of the kind that dataset_type says"},
    {"eval_fraction", real, "0.0", "0..<1", used,
     "moesh's own: share of the documents or rows of dataset_path that are held out, by hash, as the validation set"},
    {"eval_data_columns", texts, "[text]", "", used, "field of a line of eval_dataset_path that holds its document, for jsonl"},
    {"packing", boolean, "true", "", used,
     "jsonl, megatron: fills rows with documents, each seeing only itself; false for one document a row, padded"},
    {"max_segments_per_seq", integer, "-1", "-1..1000000000", used,
     "synthetic: packs rows of 2 to so many segments; files of documents know no limit"},
    {"num_epoch", integer, "1", "1..1000000000", refused,
     "times the data is gone through; here it is gone round until the steps are done"},
    {"enable_data_shuffling", boolean, "true", "", used,
     "takes the documents, or the rows where a file has no documents, in a random order"},
    {"data_shuffle_seed", integer, "0", "0..4294967295", used, "seed of the order of enable_data_shuffling"},
    {"expansion_factor_real_data", real, "-1.0", "-1..1000000", used,
     "above 1, one in so many processes loads, and so many times as much; -1 for all alike"},
    {"use_truncation", boolean, "true", "", used,
     "packing=false: cuts documents off at the end of a row; false to split them into several rows"},
};

constexpr Key kTokenizer[] = {
    {"tokenizer_path", text, "", "", used,
     "tokenizer.json, tokenizer.model or folder with one, of files of text; empty for bytes as tokens"},
    {"tokenizer_type", choice, "sentencepiece", "sentencepiece|huggingface|tiktoken", used,
     "huggingface: tokenizer_path has a tokenizer.json; where it is not set the file tells; no tiktoken"},
    {"tokenize_train_data", boolean, "true", "", used,
     "false if the documents of dataset_type=jsonl are lists of token ids already"},
    {"tokenize_eval_data", boolean, "true", "", used, "false if the documents of eval_dataset_path are lists of token ids already"},
    {"add_bos", boolean, "true", "", used, "puts the tokenizer's begin token before each document: line of jsonl, file of text"},
    {"add_eos", boolean, "true", "", used, "puts its end token behind each document; a zero behind a line of bytes"},
    {"use_chat_template", boolean, "false", "", refused, "lays the text out as a chat by a template"},
    {"chat_template_path", text, "", "", accepted, kHelpChatTemplate},
    {"chat_template", text, "", "", accepted, kHelpChatTemplate},
    {"data_template_path", text, "", "", accepted, kHelpChatTemplate},
    {"system_prompt", text, "", "", accepted, kHelpChatTemplate},
};

constexpr Key kLoaders[] = {
    {"dataset_name", text, "c4/en:3.1.0", "", accepted, kHelpTfdsLoader},
    {"eval_dataset_name", text, "c4/en:3.1.0", "", accepted, kHelpTfdsLoader},
    {"train_split", text, "train", "", accepted, kHelpTfdsLoader},
    {"eval_split", text, "validation", "", accepted, kHelpTfdsLoader},
    {"max_corpus_chars", integer, "10000000", "", accepted, "characters another engine trains a tokenizer on"},
    {"generate_padding_batch_train", boolean, "false", "", accepted, kHelpPaddingBatches},
    {"generate_padding_batch_eval", boolean, "false", "", accepted, kHelpPaddingBatches},
    {"hf_path", text, "", "", accepted, kHelpHuggingFaceLoader},
    {"hf_name", text, "", "", accepted, kHelpHuggingFaceLoader},
    {"hf_data_dir", text, "", "", accepted, kHelpHuggingFaceLoader},
    {"hf_train_files", text, "", "", accepted, kHelpHuggingFaceLoader},
    {"hf_eval_split", text, "", "", accepted, kHelpHuggingFaceLoader},
    {"hf_eval_files", text, "", "", accepted, kHelpHuggingFaceLoader},
    {"hf_access_token", text, "", "", accepted, kHelpHuggingFaceLoader},
    {"grain_train_files", text, "", "", accepted, kHelpGrainLoader},
    {"grain_eval_files", text, "", "", accepted, kHelpGrainLoader},
    {"grain_train_mixture_config_path", text, "", "", accepted, kHelpGrainLoader},
    {"grain_file_type", text, "arrayrecord", "", accepted, kHelpGrainLoader},
    {"grain_packing_type", choice, "first_fit", "first_fit|best_fit|concat_then_split", accepted, kHelpGrainLoader},
    {"grain_worker_count", integer, "1", "", accepted, kHelpGrainLoader},
    {"grain_per_worker_buffer_size", integer, "1", "", accepted, kHelpGrainLoader},
    {"grain_num_threads", integer, "16", "", accepted, kHelpGrainLoader},
    {"grain_prefetch_buffer_size", integer, "500", "", accepted, kHelpGrainLoader},
    {"grain_worker_count_eval", integer, "1", "", accepted, kHelpGrainLoader},
    {"grain_per_worker_buffer_size_eval", integer, "1", "", accepted, kHelpGrainLoader},
    {"grain_ram_budget_mb", integer, "1024", "", accepted, kHelpGrainLoader},
    {"grain_num_threads_eval", integer, "16", "", accepted, kHelpGrainLoader},
    {"grain_prefetch_buffer_size_eval", integer, "500", "", accepted, kHelpGrainLoader},
    {"grain_data_source_max_workers", integer, "16", "", accepted, kHelpGrainLoader},
    {"grain_index_storage_option", choice, "null", "in_memory|offloaded", accepted, kHelpGrainLoader},
    {"grain_shuffle_buffer_size", integer, "100", "", accepted, kHelpGrainLoader},
    {"grain_use_elastic_iterator", boolean, "false", "", accepted, kHelpGrainLoader},
    {"colocated_python_data_input", boolean, "false", "", accepted, kHelpPathways},
    {"olmo_index_path", text, "", "", accepted, kHelpOlmoLoader},
    {"olmo_path_remap_from", text, "", "", accepted, kHelpOlmoLoader},
    {"olmo_path_remap_to", text, "", "", accepted, kHelpOlmoLoader},
    {"olmo_apply_ngram_filter", boolean, "true", "", accepted, kHelpOlmoLoader},
};

constexpr Topic kDataTopics[] = {
    {.title = "Data", .keys = kData, .scope = Scope::runs, .is_of_training = true},
    {.title = "Tokenizer", .keys = kTokenizer, .scope = Scope::runs, .is_of_texts = true},
    {"Loaders of other engines", kLoaders, Scope::runs},
};

}  // namespace

std::span<const Topic> data_topics() { return kDataTopics; }

}  // namespace moesh::config
