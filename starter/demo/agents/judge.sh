#!/bin/sh
# A scripted judge: it stands where a model that reads code would. It gets its
# brief on standard input: the task, the rubric, facts about the checks and the
# diff, but not a word of the implementer. The program, not the judge, makes a
# verdict of the scores and findings.
set -eu
brief=$(cat)

score=5 reason='The diff does it, and adds a test that shows it.' findings=''
if ! printf '%s' "$brief" | grep -q -e '+func Test'; then
	score=2 reason='The diff adds no test.'
	findings='{"severity":"blocking","claim":"Nothing shows that the criterion is met: the diff adds no test."}'
fi

# Each criterion of the rubric is scored under its own words, as they stand.
scores=$(printf '%s\n' "$brief" |
	sed -n '/^  "rubric": \[/,/^  \]/s/^ *"criterion": \(".*"\),\{0,1\}$/\1/p' |
	while IFS= read -r criterion; do
		printf '%s{"criterion":%s,"score":%s,"reason":"%s"}' "${comma-}" "$criterion" "$score" "$reason"
		comma=,
	done)
printf '{"scores":[%s],"findings":[%s],"cost_usd":0.01}\n' "$scores" "$findings"
