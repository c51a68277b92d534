#!/bin/sh
# The repository has no remote.
git -C repository remote remove origin
