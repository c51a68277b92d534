#!/bin/sh
# It never writes the comment that the judge asks for.
cat >/dev/null
echo 'echo "Goodbye, $1!"' >bye.sh
echo 'test "$(sh bye.sh Ada)" = "Goodbye, Ada!"' >tests/bye.sh
echo '{"status":"done","cost_usd":0.02}'
