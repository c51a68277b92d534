#!/bin/sh
# It talks instead of scoring the rubric.
cat >/dev/null
echo 'Looks good to me!'
