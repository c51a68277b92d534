#!/bin/sh
# Its work is green by itself. Meanwhile, a colleague changes what greet.sh says.
cat >/dev/null
echo 'sh greet.sh "$1"; sh greet.sh "$1"' >twice.sh
echo 'test "$(sh twice.sh Ada | grep -c Hello)" = 2' >tests/twice.sh
sh "$(dirname "$0")/colleague.sh"
echo '{"status":"done","cost_usd":0.02}'
