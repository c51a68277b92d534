// Package workspace keeps the files of slices: what an agent edits, what checks and judges look at, and the
// record of both in git.
//
// A Store is one bare repository per user's repository and host; everything of a slice is refs below
// refs/interlock/<slice>/ in it. A Workspace is the folder that an agent edits, a View one that the program
// moves from tree to tree for checks and judges. Both are plain checkouts kept by an index file that lies
// outside of them; the .git folder that is seen inside is disposable: it is there so that "git log", "git diff"
// or "git commit" work, and nothing is ever read back from it. Whatever is done to it changes nothing but files.
//
// Files are the bytes of the blobs, both ways: .gitattributes, autocrlf, filters and ident have no say, neither
// at a checkout nor at a snapshot. A snapshot takes tracked files, and untracked ones that no .gitignore in the
// tree excludes; a global ignore file or info/exclude has no say. It is a function of the last good commit and
// the files, not of earlier snapshots.
//
// Everything that changes something may be repeated: it looks first, uses names that follow from its input, and
// moves refs only from a known value to another. One writer per folder: a file lock that the git processes
// inherit, so that even after this program was killed nobody enters before they have ended. Commits, refs and the
// ledger are written through to the disk; the blobs of a candidate are left to the system, which can take them
// again from the files.
package workspace
