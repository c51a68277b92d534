#!/bin/sh
# It talks first. Told why that was discarded, it answers as the schema asks.
brief=$(cat)
echo 'echo "Goodbye, $1!"' >bye.sh
echo 'test "$(sh bye.sh Ada)" = "Goodbye, Ada!"' >tests/bye.sh
if printf '%s' "$brief" | grep -q '^  "discarded": '; then
	echo '{"status":"done","cost_usd":0.02}'
else
	echo 'Sure! I have made all the changes you asked for.'
fi
