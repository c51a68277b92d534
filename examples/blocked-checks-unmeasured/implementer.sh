#!/bin/sh
# Its test needs a program that this machine does not have.
cat >/dev/null
echo 'echo "Goodbye, $1!"' >bye.sh
echo 'no-such-program bye.sh' >tests/bye.sh
echo '{"status":"done","cost_usd":0.02}'
