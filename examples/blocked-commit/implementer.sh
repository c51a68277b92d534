#!/bin/sh
# Not sandboxed, it looks for the store of the slice and moves the commit that
# the next one is to be made on.
cat >/dev/null
echo 'echo "Goodbye, $1!"' >bye.sh
for store in ../../../stores/*/; do
	git --git-dir="$store" rev-parse --quiet --verify refs/interlock/blocked-commit/good >/dev/null || continue
	other=$(git --git-dir="$store" -c user.name=x -c user.email=x@example.org commit-tree -m 'Not from here' 'refs/interlock/blocked-commit/good^{tree}')
	git --git-dir="$store" update-ref refs/interlock/blocked-commit/good "$other"
done
echo '{"status":"done","cost_usd":0.02}'
