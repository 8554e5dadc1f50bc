#include "foreign/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "foreign/import.h"
#include "foreign/words.h"
#include "tests/foreign/given.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The words of the script's command.
std::string command_of(const std::string& script) {
  std::vector<std::string> words;
  for (const ShellWord& word : shell_words(read_script(script, "a test").command, "a test")) words.push_back(word.text);
  return join(words, " ");
}

TEST(Script, PutsVariablesAndArraysIn) {
  EXPECT_EQ(command_of("TP=8\ntorchrun pretrain_gpt.py --tp $TP --x ${TP} --y a${TP}b"), "torchrun pretrain_gpt.py --tp 8 --x 8 --y a8b");
  EXPECT_EQ(command_of("ARGS=(\n  --a 1  # one\n  --b \"x y\"\n)\nARGS+=(--c 3)\ntorchrun t.py \"${ARGS[@]}\" ${ARGS[*]}"),
            "torchrun t.py --a 1 --b x y --c 3 --a 1 --b x y --c 3");
  EXPECT_EQ(command_of("OPTIONS=\" \\\n  --a 1 \\\n  --b 2\"\nexport N=3; python t.py $OPTIONS --n '$N'"),
            "python t.py --a 1 --b 2 --n $N");
  EXPECT_EQ(command_of("A=1\nB=$A$A\nA=2\nC=\"$B\"\nx.py $A $B $C"), "x.py 2 11 11");
  EXPECT_EQ(command_of("A=1\nB='$A'\nx.py $B \"it's $A\""), "x.py $A it's 1");
  EXPECT_EQ(command_of("G=8\nN=4\nW=$(($G*$N))\nx.py --w $W --v $((G * N))"), "x.py --w 32 --v $((G * N))");
}

TEST(Script, DefaultsAreTakenAndSaid) {
  const Script script = read_script("N=${SLURM_NNODES:-\"4\"}\nM=2\nM=${M:-7}\nx.py $N $M ${K:-$M}", "a test");
  EXPECT_EQ(script.command, "x.py 4 2 2");
  EXPECT_THAT(script.assumed, ElementsAre("the script's own defaults are taken for K, SLURM_NNODES"));
}

TEST(Script, WhatDependsOnAConditionIsLeftOutAndSaid) {
  const Script script = read_script(
      "A=(--a 1)\nif [ -n \"$X\" ]; then\n  A+=(--b 2)\n  U=3\nelse A+=(--c 4); fi\nfor i in 1 2; do Z=$i; done\nx.py ${A[@]}", "a test");
  EXPECT_EQ(script.command, "x.py --a 1");
  EXPECT_THAT(script.assumed, ElementsAre("the script is not run: what it sets under if, for, while or case is left out, of A"));
}

TEST(Script, TheCommandIsTheLongestThatStartsAProgram) {
  EXPECT_EQ(command_of("#!/bin/bash\nset -e\nN=2\npython prepare.py\ncd /x && torchrun pretrain_gpt.py --a $N 2>&1\necho done"),
            "cd /x & & torchrun pretrain_gpt.py --a 2 > & 1");
  EXPECT_EQ(command_of("N=2\ncmd=\"torchrun pretrain_gpt.py --a ${N}\"\neval ${cmd}"), "eval torchrun pretrain_gpt.py --a 2");
  EXPECT_EQ(command_of("N=2\n--a $N\n--b 3"), "--a 2 --b 3");
}

TEST(Script, WhatIsNotKnownStaysAsItIs) {
  EXPECT_EQ(command_of("A=1\nx.py $1 ${B} $(pwd) ${A%x} $((A/2))"), "x.py $1 ${B} $(pwd) ${A%x} $((A/2))");
  const std::string needed = "--num-layers $L --hidden-size 64 --num-attention-heads 4";
  EXPECT_EQ(test::message_of([&] { from_program("megatron", "L=$(cat layers)\npretrain_gpt.py " + needed, {}); }),
            "--from megatron: --num-layers: several values, '$(cat layers)', a whole number from 1 was expected\n  fix: write the value of "
            "the shell's variable");
}

TEST(Script, CommandsAloneStayAsTheyAre) {
  for (const std::string text :
       {"--a 1\n--b $X", "NGPU=4 ./run_train.sh --a 1", "torchrun x.py --a '([0]*3+[1]*58)'; rm --b", "CONFIG_FILE=x.toml", "", "'"}) {
    const Script script = read_script(text, "a test");
    EXPECT_EQ(script.command, text);
    EXPECT_THAT(script.assumed, IsEmpty());
  }
}

TEST(Script, OddOnesAreReadOrRefused) {
  for (const std::string text : {"A=(", "A=\"\nB", "A=1\n$", "A=1\n${", "A=1\n${A", "A=1\n${A[@", "A=${:-}\n$((", "A=$(((\n;;;",
                                 "if\nfi\nfi\nA=1\nx", "A=1\n\\", "=\n+=\nA+=", "A='\nB=\"'\n"}) {
    EXPECT_EQ(test::message_of([&] { read_script(text, "a test"); }), "no error") << text;
  }
  for (const std::string part : {"$((", "${", "\"${A[@]}", "${A:-", "A+=(", "$(", "x $A\n", "A+=$A\n", "'", "if\n"}) {
    std::string many = "A=1\n";
    while (many.size() < 1'000'000) many += part;
    const std::string message = test::message_of([&] { read_script(many, "a test"); });
    EXPECT_TRUE(message == "no error" || message.find("4.00 MiB") != std::string::npos) << part << message;
  }
  std::string grows = "A0=0123456789\n";
  for (int i = 1; i < 60; ++i) grows += "A" + std::to_string(i) + "=$A" + std::to_string(i - 1) + "$A" + std::to_string(i - 1) + "\n";
  EXPECT_EQ(test::message_of([&] { read_script(grows + "x.py $A59", "a test"); }),
            "a test: a script whose variables make more than 4.00 MiB\n  fix: give the command alone");
}

TEST(Script, IsTranslatedAsItsCommand) {
  const Imported made = from_program("megatron",
                                     "#!/bin/bash\nGPUS=8\nNODES=${NODES:-2}\nDISTRIBUTED=(--nproc_per_node $GPUS --nnodes $NODES)\n"
                                     "MODEL=(\n  --num-layers 4\n  --hidden-size 64\n  --num-attention-heads 4\n  --vocab-size 256\n)\n"
                                     "TRAINING=( --seq-length 32 --bf16 --use-torch-fsdp2 )\n"
                                     "torchrun ${DISTRIBUTED[@]} pretrain_gpt.py \\\n  ${MODEL[@]} \\\n  ${TRAINING[@]}\n",
                                     {});
  EXPECT_EQ(given(made, "base_num_decoder_layers"), "base_num_decoder_layers=4");
  EXPECT_EQ(given(made, "ici_fsdp_parallelism"), "ici_fsdp_parallelism=16");
  EXPECT_THAT(told(made.notes), HasSubstr("assumed: the script's own defaults are taken for NODES\n"));
}

}  // namespace
}  // namespace moesh::foreign
