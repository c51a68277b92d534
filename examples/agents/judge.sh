#!/bin/sh
# A judge that finds nothing. The program, not the judge, makes a verdict of the
# scores and findings.
cat >/dev/null
echo '{"scores":[{"criterion":"It works.","score":5,"reason":"A test shows it."}],"findings":[],"cost_usd":0.01}'
