package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// instructions are the names of what agent programs take for instructions and
// settings of a repository.
var instructions = []string{
	"AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "opencode.json", "opencode.jsonc", ".mcp.json",
	".agents", ".claude", ".codex", ".gemini", ".opencode", ".git",
}

// mirror makes to a copy of the files of from, without instructions. Symbolic
// links are left out: they could lead out of it.
func mirror(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("copy for a judge: %w", err)
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case name != "." && slices.ContainsFunc(instructions, func(n string) bool { return strings.EqualFold(n, d.Name()) }):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case d.Type().IsRegular():
			return copyFile(path, target)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("copy for a judge: %w", err)
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
