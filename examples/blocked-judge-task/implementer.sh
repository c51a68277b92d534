#!/bin/sh
# It does not take advice.
cat >/dev/null
echo 'echo "Goodbye, $1!"' >bye.sh
echo '{"status":"done","cost_usd":0.02}'
