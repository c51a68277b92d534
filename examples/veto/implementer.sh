#!/bin/sh
# It forgets the test, then writes one that tests nothing, and does it right only
# when it is advised.
brief=$(cat)
told() { printf '%s' "$brief" | grep -q -e "$1"; }

echo 'echo "Goodbye, $1!"' >bye.sh
if told '^  "advice": '; then
	echo 'test "$(sh bye.sh Ada)" = "Goodbye, Ada!"' >tests/bye.sh
elif told '^  "findings": '; then
	echo 'sh bye.sh Ada >/dev/null' >tests/bye.sh
fi
echo '{"status":"done","summary":"It works, believe me.","cost_usd":0.02}'
