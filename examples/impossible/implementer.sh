#!/bin/sh
# Not sandboxed, it looks for the store of the slice and removes the record.
cat >/dev/null
echo 'echo "Goodbye, $1!"' >bye.sh
for store in ../../../stores/*/; do
	git --git-dir="$store" rev-parse --quiet --verify refs/interlock/impossible/good >/dev/null || continue
	git --git-dir="$store" update-ref -d refs/interlock/impossible/ledger
done
echo '{"status":"done","cost_usd":0.02}'
