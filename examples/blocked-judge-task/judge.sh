#!/bin/sh
# It vetoes what has no test.
cat >/dev/null
echo '{"scores":[{"criterion":"It works.","score":2,"reason":"Nothing shows it."}],"findings":[{"severity":"blocking","file":"bye.sh","claim":"There is no test."}],"cost_usd":0.01}'
