package guard

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"interlock/slice"
)

// ProtectedByDefault are the paths that a slice may not change without being
// told so: its own policy, the files of continuous integration, and what git
// does to files.
func ProtectedByDefault() []string {
	return []string{
		slice.PolicyFile, ".github/workflows/**", ".github/actions/**", ".gitlab-ci.yml", ".gitlab/**", ".circleci/**", ".travis.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml",
		".drone.yml", ".buildkite/**", "Jenkinsfile", ".cirrus.yml", "appveyor.yml", ".appveyor.yml", ".woodpecker.yml", ".woodpecker/**", ".forgejo/workflows/**", ".gitea/workflows/**",
		"**/.gitattributes", "**/.gitmodules",
	}
}

// Surroundings is what of a repository lies outside its commits and yet decides
// what git or a check does there.
type Surroundings struct {
	// Hooks are the names of the files in the folder of hooks that git would run.
	Hooks []string
	// Settings are those of the repository's own configuration, with the file
	// that each stands in.
	Settings []Setting
	// Attributes and Sparse are the repository's own info/attributes and
	// info/sparse-checkout; empty if there are none.
	Attributes, Sparse string
	// Differ are the files of the working tree that are not as HEAD has them,
	// Absent those that are not there. They are empty if HEAD is not what is
	// looked at.
	Differ, Absent []string
	// Planted are files of the working tree that no commit holds.
	Planted []string
}

// Setting is one value of git's configuration.
type Setting struct{ File, Key, Value string }

// paths finds what the globs forbid.
func (j *judge) paths() error {
	j.globs(j.in.Protected, "protected")
	j.globs(j.in.Frozen, "frozen")
	j.dangerous()
	j.surroundings()
	return j.err
}

func (j *judge) path(kind string, v Verdict, p, why string) {
	j.add(Finding{Kind: kind, Verdict: v, Language: string(config), File: p, Why: why})
}

func (j *judge) globs(globs []string, kind string) {
	if len(globs) == 0 {
		return
	}
	g := compile(globs)
	word := map[string]string{"protected": "protected", "frozen": "frozen"}[kind]
	var fresh []*Change
	for k := range j.in.Changes {
		c := &j.in.Changes[k]
		if g.match(c.Path) {
			why := ""
			switch {
			case c.Base == nil:
				why = "was added"
			case c.Head == nil:
				why = "was removed, or renamed away"
			case c.Base.Mode != c.Head.Mode && c.Head.Mode == "120000":
				why = "became a link"
			case c.Base.Mode != c.Head.Mode && c.Head.Mode == "160000":
				why = "became a submodule"
			case c.Base.Mode != c.Head.Mode && c.Base.Object == c.Head.Object:
				why = fmt.Sprintf("changed its mode from %s to %s", c.Base.Mode, c.Head.Mode)
			default:
				why = "was changed"
			}
			j.path(kind, Tampered, c.Path, fmt.Sprintf("this %s path %s", word, why))
			continue
		}
		if c.Head != nil && c.Base == nil || c.Head != nil && c.Base != nil && c.Head.Mode != c.Base.Mode {
			fresh = append(fresh, c)
		}
	}
	if len(fresh) == 0 {
		return
	}
	// What is new may stand for a path that is protected: by case, by Unicode,
	// by a link, by a file or a submodule in place of its folder.
	var guarded []string
	folded := map[string]string{}
	note := func(p string) {
		guarded = append(guarded, p)
		for d := p; d != "." && d != "/" && d != ""; d = path.Dir(d) {
			folded[fold(d)] = d
		}
	}
	for _, e := range j.list(Base) {
		if g.match(e.Path) {
			note(e.Path)
		}
	}
	literal := g.folders()
	for _, d := range literal {
		for ; d != "." && d != ""; d = path.Dir(d) {
			if _, ok := folded[fold(d)]; !ok {
				folded[fold(d)] = d
			}
		}
	}
	for _, c := range fresh {
		// A twin of the path itself, or of a folder above it.
		for d := c.Path; d != "." && d != "/" && d != ""; d = path.Dir(d) {
			if real, ok := folded[fold(d)]; ok && real != d {
				j.path(kind, Tampered, c.Path, fmt.Sprintf("on some file systems it is the %s path %q", word, real))
				break
			}
		}
		if g.match(fold(c.Path)) && fold(c.Path) != c.Path && !g.match(c.Path) {
			j.path(kind, Tampered, c.Path, fmt.Sprintf("on some file systems it is a %s path", word))
		}
		for _, p := range guarded {
			if strings.HasPrefix(p, c.Path+"/") {
				j.path(kind, Tampered, c.Path, fmt.Sprintf("it takes the place of the folder of the %s path %q", word, p))
				break
			}
			if strings.HasPrefix(c.Path, p+"/") {
				j.path(kind, Tampered, c.Path, fmt.Sprintf("it takes the place of the %s path %q", word, p))
				break
			}
		}
		if c.Head.Mode == "160000" || c.Head.Mode == "120000" {
			for _, d := range literal {
				if d == c.Path || strings.HasPrefix(d, c.Path+"/") {
					j.path(kind, Tampered, c.Path, fmt.Sprintf("it takes the place of the %s folder %q", word, d))
				}
			}
		}
		if strings.Contains(c.Path, `\`) {
			if p := strings.ReplaceAll(c.Path, `\`, "/"); g.match(p) {
				j.path(kind, Review, c.Path, fmt.Sprintf("where \\ parts folders it is the %s path %q", word, p))
			}
		}
		if c.Head.Mode == "120000" {
			target, err := j.in.Read(Head, c.Path)
			if err != nil {
				j.err = &UnreadableError{Path: c.Path, Side: Head, Err: err}
				return
			}
			to := path.Clean(path.Join(path.Dir(c.Path), string(target)))
			if strings.HasPrefix(string(target), "/") {
				continue
			}
			for _, p := range append(guarded, literal...) {
				if p == to || strings.HasPrefix(p, to+"/") && to != "." || to == "." && false {
					j.path(kind, Review, c.Path, fmt.Sprintf("this new link leads to the %s path %q", word, p))
					break
				}
			}
		}
	}
}

// fold makes one name of all that some file systems take for one.
func fold(p string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case 'ı':
			return 'i'
		case 'ß', 'ẞ':
			return 'S'
		case 'ſ':
			return 's'
		case 'K':
			return 'k'
		}
		// What HFS+ and others ignore.
		if r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, trimDots(norm.NFKC.String(p)))
}

// trimDots drops what NTFS drops at the end of a name.
func trimDots(p string) string {
	parts := strings.Split(p, "/")
	for k, s := range parts {
		if s != "." && s != ".." {
			if t := strings.TrimRight(s, " ."); t != "" {
				parts[k] = t
			}
		}
	}
	return strings.Join(parts, "/")
}

// dangerous finds what is wrong with any repository: names that git keeps for
// itself, and attributes that hide changes.
func (j *judge) dangerous() {
	for k := range j.in.Changes {
		c := &j.in.Changes[k]
		if c.Head == nil {
			continue
		}
		for _, d := range segments(c.Path) {
			f := fold(d)
			if f == ".git" || strings.HasPrefix(f, "git~1") || f == ".git::$index_allocation" {
				j.path("protected", Tampered, c.Path, "some file systems take it for git's own folder")
				break
			}
		}
		base := path.Base(c.Path)
		if base == ".gitattributes" && c.Head.file() {
			j.attributes(c)
		}
		if base == slice.PolicyFile && path.Dir(c.Path) == "." && c.Base != nil && len(j.in.Protected) == 0 {
			j.path("protected", Review, c.Path, "the policy of the slices changed")
		}
	}
	if c := j.changed[slice.PolicyFile]; c != nil && c.Head == nil && len(j.in.Protected) == 0 {
		j.path("protected", Review, c.Path, "the policy of the slices is gone")
	}
}

// attributes judges a line of .gitattributes that was not there: it may hide
// changes from those who look, or change what is checked out.
func (j *judge) attributes(c *Change) {
	now, ok := j.text(Head, c.Path)
	if !ok {
		return
	}
	was := ""
	if c.Base.file() {
		was, _ = j.text(Base, c.Path)
	}
	old := strings.Split(was, "\n")
	for n, l := range strings.Split(now, "\n") {
		if slices.Contains(old, l) {
			continue
		}
		w := strings.Fields(l)
		if len(w) < 2 || strings.HasPrefix(w[0], "#") {
			continue
		}
		for _, a := range w[1:] {
			name, _, _ := strings.Cut(a, "=")
			if !oneOf(name, "-diff", "binary", "filter", "-text2", "linguist-generated", "ident", "working-tree-encoding", "merge") || a == "filter=lfs" || a == "diff=lfs" || a == "merge=lfs" || name == "merge" && a != "merge=ours" {
				continue
			}
			v := Review
			if g := compile([]string{"**/" + strings.TrimPrefix(w[0], "/"), strings.TrimPrefix(w[0], "/")}); oneOf(name, "-diff", "filter", "working-tree-encoding") {
				for p := range j.changed {
					if lang := languageOf(p); lang != "" && isTestFile(lang, p) && lang != rust && g.match(p) {
						v = Tampered
						j.add(Finding{Kind: "protected", Verdict: v, Language: string(config), File: p, Why: fmt.Sprintf("%s hides how it changed: %s", c.Path, l)})
					}
				}
			}
			if v == Review && !oneOf(name, "-diff", "filter") {
				continue
			}
			j.add(Finding{Kind: "protected", Verdict: v, Language: string(config), File: c.Path, Line: n + 1, Why: "it changes what git shows or checks out: " + l})
		}
	}
}

// harmless are programs that the configuration of a repository may name.
var harmless = []string{"git-lfs", "git lfs", "cat", "less", "more", "vim", "vi", "nano", "emacs", "code", "store", "cache", "osxkeychain", "manager", "manager-core", "libsecret", "wincred", "gh", "ssh", "true", "false", "auto", "always", "never", "delta", "diff-so-fancy", ""}

// surroundings judges the state around the commits.
func (j *judge) surroundings() {
	s := j.in.Surroundings
	if s == nil {
		return
	}
	for _, h := range s.Hooks {
		j.path("protected", Tampered, ".git/hooks/"+h, "git runs this hook, and no commit holds it")
	}
	seen := map[string]bool{}
	for _, c := range s.Settings {
		if !executes(c.Key, c.Value) {
			continue
		}
		j.path("protected", Tampered, c.File, fmt.Sprintf("it makes git run something else: %s = %s", c.Key, shorten(c.Value)))
		if c.File != ".git/config" && !seen[c.File] {
			seen[c.File] = true
			j.path("protected", Tampered, ".git/config", "it includes "+c.File)
		}
	}
	if w := strings.Fields(s.Attributes); len(w) > 0 {
		for _, l := range strings.Split(s.Attributes, "\n") {
			if f := strings.Fields(l); len(f) > 1 && !strings.HasPrefix(f[0], "#") && !strings.Contains(l, "lfs") {
				j.path("protected", Tampered, ".git/info/attributes", "it changes what git shows or checks out, and no commit holds it: "+l)
				break
			}
		}
	}
	g := compile(j.in.Protected)
	for _, p := range s.Differ {
		if g.match(p) {
			j.path("protected", Tampered, p, "in the working tree it is not what the commit holds")
		}
	}
	for _, p := range s.Planted {
		if g.match(p) {
			j.path("protected", Tampered, p, "it lies in the working tree, and no commit holds it")
		}
	}
	hiddenPath := false
	for _, p := range s.Absent {
		if g.match(p) {
			hiddenPath = true
			v := Tampered
			if s.Sparse != "" {
				v = Review
			}
			j.path("protected", v, p, "it is not in the working tree")
		}
	}
	if s.Sparse != "" && hiddenPath {
		j.path("protected", Review, ".git/info/sparse-checkout", "it leaves protected paths out of the working tree")
	}
}

// executes says that a setting makes git run a program, or read other settings.
func executes(key, value string) bool {
	k := strings.ToLower(key)
	v := strings.TrimSpace(value)
	first, _, _ := strings.Cut(strings.TrimPrefix(v, "!"), " ")
	switch {
	case k == "core.hookspath":
		return true
	case oneOf(k, "core.sshcommand", "core.gitproxy", "core.fsmonitor", "core.alternaterefscommand", "diff.external", "gpg.program", "gpg.ssh.program", "gpg.x509.program", "uploadpack.packobjectshook", "core.askpass", "sequence.editor", "core.editor", "core.pager", "interactive.difffilter", "web.browser", "sendemail.sendmailcmd", "init.templatedir"),
		k == "credential.helper", strings.HasPrefix(k, "credential.") && strings.HasSuffix(k, ".helper"),
		strings.HasPrefix(k, "filter.") && (strings.HasSuffix(k, ".clean") || strings.HasSuffix(k, ".smudge") || strings.HasSuffix(k, ".process")),
		strings.HasPrefix(k, "diff.") && (strings.HasSuffix(k, ".textconv") || strings.HasSuffix(k, ".command")),
		strings.HasPrefix(k, "merge.") && strings.HasSuffix(k, ".driver"),
		strings.HasPrefix(k, "pager."), strings.HasPrefix(k, "difftool.") && strings.HasSuffix(k, ".cmd"), strings.HasPrefix(k, "mergetool.") && strings.HasSuffix(k, ".cmd"),
		strings.HasPrefix(k, "remote.") && (strings.HasSuffix(k, ".uploadpack") || strings.HasSuffix(k, ".receivepack") || strings.HasSuffix(k, ".vcs")),
		strings.HasPrefix(k, "submodule.") && strings.HasSuffix(k, ".update") && strings.HasPrefix(v, "!"):
		if k == "core.fsmonitor" && oneOf(strings.ToLower(v), "true", "false", "1", "0") {
			return false
		}
		if strings.Contains(v, ";") || strings.Contains(v, "|") || strings.Contains(v, "$(") || strings.HasPrefix(v, "!") && !strings.HasPrefix(v, "!gh ") && !strings.HasPrefix(v, "!/usr/bin/gh ") {
			return true
		}
		return !slices.Contains(harmless, first) && !strings.HasPrefix(v, "git-lfs ") && !strings.HasPrefix(v, "git lfs ")
	case strings.HasPrefix(k, "alias."):
		return strings.HasPrefix(v, "!") && gitCommand(k[len("alias."):])
	case strings.HasPrefix(k, "url.") && (strings.HasSuffix(k, ".insteadof") || strings.HasSuffix(k, ".pushinsteadof")):
		return strings.HasPrefix(k, "url.ext::") || strings.HasPrefix(k, "url.file:") || strings.HasPrefix(k, "url./")
	case k == "protocol.ext.allow":
		return v != "never"
	case k == "core.attributesfile", k == "core.worktree":
		return !strings.HasPrefix(v, "~")
	}
	return false
}

// gitCommand says that an alias stands for a command that programs call.
func gitCommand(name string) bool {
	return oneOf(name, "diff", "status", "commit", "push", "fetch", "merge", "log", "show", "checkout", "add", "pull", "ci", "st", "verify")
}
