#!/bin/sh
# An advisor. It gets text only: the task, the findings, the diff.
cat >/dev/null
echo '{"advice":"Let the test say what must come out: Goodbye, Ada!","cost_usd":0.01}'
