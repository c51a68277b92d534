#!/bin/sh
# An implementer that does what it is asked at once. Its brief comes on standard
# input, the working directory is the repository, and one JSON document on
# standard output is its answer.
cat >/dev/null
cat >bye.sh <<'END'
# Says goodbye to the person that it is told.
echo "Goodbye, $1!"
END
cat >tests/bye.sh <<'END'
test "$(sh bye.sh Ada)" = 'Goodbye, Ada!'
END
echo '{"status":"done","summary":"bye.sh says goodbye","cost_usd":0.02}'
