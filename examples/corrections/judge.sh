#!/bin/sh
# It asks for a comment in bye.sh: not worth a veto, but to be corrected.
cat >/dev/null
finding=
if ! grep -q '^#' bye.sh; then
	finding='{"severity":"correction","file":"bye.sh","line":1,"claim":"bye.sh does not say what it is for."}'
fi
printf '{"scores":[{"criterion":"It works.","score":4,"reason":"It does."}],"findings":[%s],"cost_usd":0.01}\n' "$finding"
