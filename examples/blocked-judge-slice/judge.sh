#!/bin/sh
# It passes each task, but not the whole: that brief has tasks, not one task.
if grep -q '^  "tasks": '; then
	echo '{"scores":[{"criterion":"It works.","score":2,"reason":"Not as a whole."}],"findings":[{"severity":"blocking","file":"README.md","claim":"The README does not mention bye.sh."}],"cost_usd":0.01}'
else
	echo '{"scores":[{"criterion":"It works.","score":5,"reason":"A test shows it."}],"findings":[],"cost_usd":0.01}'
fi
