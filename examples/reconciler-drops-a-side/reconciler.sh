#!/bin/sh
# It resolves the conflict by dropping what the base has added.
cat >/dev/null
printf 'Ada\nGrace\n' >names.txt
echo '{"status":"done","cost_usd":0.01}'
