#!/bin/sh
# It adds a name. Meanwhile, a colleague adds another one at the same place.
cat >/dev/null
echo Grace >>names.txt
sh "$(dirname "$0")/colleague.sh"
echo '{"status":"done","cost_usd":0.02}'
