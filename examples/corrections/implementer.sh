#!/bin/sh
# It writes the comment once it is asked to.
brief=$(cat)
{
	if printf '%s' "$brief" | grep -q 'does not say what it is for'; then
		echo '# Says goodbye to the person that it is told.'
	fi
	echo 'echo "Goodbye, $1!"'
} >bye.sh
echo 'test "$(sh bye.sh Ada)" = "Goodbye, Ada!"' >tests/bye.sh
echo '{"status":"done","cost_usd":0.02}'
