package git

import (
	"bytes"
	"context"
	"os"
	"strings"
)

// remote is what a remote call has in place of a local one's empty environment.
type remote struct {
	settings []setting
	env      []string
	global   string
}

// Remote returns the client for calls that talk to another repository: fetch, push, ls-remote. It reads the
// user's configuration and that of the repository whose git directory is gitDir (may be empty), and takes only
// credential.*, url.*, http.* and core.sshCommand.
//
// safeFile, if not empty, is a configuration file with the safe.directory of a repository on this host: the
// process that serves a local repository is given no settings from the environment, but it reads this file.
func (c Client) Remote(ctx context.Context, gitDir, safeFile string) (Client, error) {
	user := &remote{global: safeFile}
	var reading []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "GIT_CONFIG_") {
			reading = append(reading, kv)
		}
		if inherited(name) {
			user.env = append(user.env, kv)
		}
	}
	if gitDir == "" {
		gitDir = "/nonexistent"
	}
	reading = append(reading, "GIT_DIR="+gitDir, "LC_ALL=C")
	var out bytes.Buffer
	if err := (Client{}).run(ctx, reading, nil, &out, "config", "--list", "--includes", "-z"); err != nil {
		return Client{}, err
	}
	for _, field := range Fields(out.Bytes()) {
		key, value, given := strings.Cut(field, "\n")
		if !given {
			value = "true"
		}
		if wanted(key) {
			user.settings = append(user.settings, setting{key, value})
		}
	}
	c.remote = user
	return c, nil
}

// inherited: credential helpers and ssh are programs of the user's and need the user's environment; git's own
// variables would point the call elsewhere, and an askpass program would wait for a person.
func inherited(name string) bool {
	switch name {
	case "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY":
		return true
	case "SSH_ASKPASS", "DISPLAY", "LC_ALL", "LANGUAGE":
		return false
	}
	return !strings.HasPrefix(name, "GIT_")
}

// wanted: git prints section and name in lower case and leaves the subsection as it is.
func wanted(key string) bool {
	return key == "core.sshcommand" ||
		strings.HasPrefix(key, "credential.") || strings.HasPrefix(key, "url.") || strings.HasPrefix(key, "http.")
}
