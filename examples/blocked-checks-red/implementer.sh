#!/bin/sh
# It never gets it right, whatever its brief says of the red test.
cat >/dev/null
echo 'echo "Goodbye!"' >bye.sh
echo 'test "$(sh bye.sh Ada)" = "Goodbye, Ada!"' >tests/bye.sh
echo '{"status":"done","cost_usd":0.02}'
