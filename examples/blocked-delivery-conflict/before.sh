#!/bin/sh
# The branch of the slice is there already, with a commit of somebody else.
cd repository
foreign=$(git commit-tree -p main -m 'Not of the slice' 'main^{tree}')
git push --quiet origin "$foreign:refs/heads/interlock/blocked-delivery-conflict"
