#!/bin/sh
# It keeps the lines of both sides, and drops the markers of the conflict.
cat >/dev/null
grep -v -e '^<<<<<<<' -e '^=======' -e '^>>>>>>>' names.txt >merged
mv merged names.txt
echo '{"status":"done","cost_usd":0.01}'
