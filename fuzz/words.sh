#!/usr/bin/env bash
# Prints a libFuzzer dictionary of the words moesh knows: keys from the schema, and labels, axes and names from configs/.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

keys() { grep -hoE '^ *\{"[a-z0-9_]+", *[a-z]+,' "$root"/src/config/schema_*.cc | cut -d'"' -f2; }
choices() { grep -hoE '"[!a-z0-9_.]*\|[^"]*"' "$root"/src/config/schema_*.cc | tr -d '"!' | tr '|' '\n'; }
config_words() { sed 's/#.*//' "$root"/configs/*.yml "$root"/configs/{rules,hardware}/*.yml | grep -oE '[A-Za-z_][A-Za-z0-9_-]{2,}'; }
names() { find "$root/configs" -name '*.yml' -exec basename {} .yml \;; }

case ${1:?usage: words.sh overrides|configs} in
  overrides) { keys | sed 's/$/=/'; keys; choices; config_words; names; } ;;
  configs) { config_words; names; } ;;
esac | sort -u | sed '/^$/d; s/.*/"&"/'
