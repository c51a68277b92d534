#!/bin/sh
# It looks at the candidate, which is in its working directory.
cat >/dev/null
verdict() {
	printf '{"scores":[{"criterion":"It works.","score":%s,"reason":"%s"}],"findings":[%s],"cost_usd":0.01}\n' "$1" "$2" "$3"
}
if [ ! -e tests/bye.sh ]; then
	verdict 2 'Nothing shows it.' '{"severity":"blocking","file":"bye.sh","claim":"There is no test."}'
elif ! grep -q Goodbye tests/bye.sh; then
	verdict 2 'Nothing shows it.' '{"severity":"blocking","file":"tests/bye.sh","line":1,"claim":"The test passes whatever bye.sh says."}'
else
	verdict 5 'The test shows it.' ''
fi
