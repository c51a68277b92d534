package evidence

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Lookup finds a variable of the worker's environment, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// Environment builds the environment of a foreign program from nothing: PATH
// (that of the worker, absolute entries only), own as NAME=value, and those
// variables of the worker that policy names in pass. A name that own has too
// keeps its own value. A nil lookup means os.LookupEnv.
func Environment(own, pass []string, lookup Lookup) []string {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	env := slices.Clone(own)
	taken := map[string]bool{"PATH": true}
	for _, e := range own {
		name, _, _ := strings.Cut(e, "=")
		taken[name] = true
	}
	env = append(env, "PATH="+searchPath(lookup))
	for _, name := range pass {
		if v, ok := lookup(name); ok && !taken[name] {
			taken[name] = true
			env = append(env, name+"="+v)
		}
	}
	slices.Sort(env)
	return env
}

func searchPath(lookup Lookup) string {
	path, _ := lookup("PATH")
	// A relative entry would be looked up in a folder that an agent can write.
	entries := slices.DeleteFunc(filepath.SplitList(path), func(d string) bool { return !filepath.IsAbs(d) })
	if len(entries) == 0 {
		return "/usr/local/bin:/usr/bin:/bin"
	}
	return strings.Join(entries, string(filepath.ListSeparator))
}

// Secrets returns the values in an environment that must not be seen: those of
// variables whose name looks secret, and the passwords of URLs in any other.
func Secrets(env []string) []string {
	var secrets []string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if secretName(name, value) {
			secrets = append(secrets, value)
			continue
		}
		for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" ,|;\t\n", r) }) {
			secrets = append(secrets, userinfo(word)...)
		}
	}
	return secrets
}

func userinfo(word string) []string {
	u, err := url.Parse(word)
	if err != nil || u.User == nil {
		return nil
	}
	if p, ok := u.User.Password(); ok {
		// As it is written, which need not be how this package would write it.
		_, written, _ := strings.Cut(strings.SplitN(word, "@", 2)[0], "://")
		_, written, _ = strings.Cut(written, ":")
		return []string{p, written}
	}
	// A token as user name, as in https://TOKEN@host; a short one is a name.
	if name := u.User.Username(); len(name) >= leastLine {
		return []string{name}
	}
	return nil
}

var (
	// secretParts betray a secret anywhere in a name, secretWords as a whole
	// word between underscores.
	secretParts = []string{"TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "APIKEY", "ACCESSKEY", "PRIVATEKEY", "COOKIE"}
	secretWords = []string{"KEY", "KEYS", "AUTH", "PAT", "PWD", "PASS", "DSN", "JWT", "BEARER", "PRIVATE", "SIGNATURE"}
)

func secretName(name, value string) bool {
	upper := strings.ToUpper(name)
	if upper == "PWD" || upper == "OLDPWD" {
		return false
	}
	words := strings.FieldsFunc(upper, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	if strings.Trim(value, "0123456789") == "" && slices.Contains(words, "TOKENS") {
		return false // a number of tokens
	}
	for _, part := range secretParts {
		if strings.Contains(upper, part) {
			return true
		}
	}
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretWords, w) })
}
