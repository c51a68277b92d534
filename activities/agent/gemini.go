package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// geminiEvent is what Gemini CLI writes, as far as it is looked at: an event of
// stream-json, or the one document of json.
type geminiEvent struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id"`
	Model     string `json:"model"`
	Role      string `json:"role"`
	Content   string `json:"content"`
	Status    string `json:"status"`
	Error     *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    figure `json:"code"`
	} `json:"error"`
	Response *string      `json:"response"`
	Stats    *geminiStats `json:"stats"`
}

type geminiStats struct {
	Total  int64 `json:"total_tokens"`
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached"`
	Models map[string]struct {
		Total  int64 `json:"total_tokens"`
		Tokens struct {
			Prompt int64 `json:"prompt"`
			Cached int64 `json:"cached"`
			Total  int64 `json:"total"`
		} `json:"tokens"`
	} `json:"models"`
}

// parseGemini reads `gemini --output-format stream-json`, and json. It has no
// price; what it exits with is the HTTP status of an error, less 256.
func parseGemini(p Printed) Ending {
	var (
		e     Ending
		asked string // what it calls the model that was asked for
		begun bool
		end   *geminiEvent
	)
	for raw := range events(p.Stdout) {
		var ev geminiEvent
		read(raw, &ev)
		switch ev.Type {
		case "init":
			begun, e.Session, asked = true, ev.SessionID, ev.Model
		case "message":
			if ev.Role == "assistant" {
				e.Text += ev.Content
			}
		case "tool_use", "tool_result":
			e.Text = ""
		case "result":
			end = &ev
		}
	}
	if doc, ok := geminiDocument(p.Stdout); !begun && end == nil && ok {
		end, e.Session = &doc, doc.SessionID
		if doc.Response != nil {
			end.Status, e.Text = "success", *doc.Response
		}
	}
	if end == nil && !begun && len(bytes.TrimSpace(p.Stdout)) == 0 {
		if doc, ok := geminiError(p.Stderr); ok {
			end, e.Session = &doc, doc.SessionID
		}
	}
	if end == nil {
		e.geminiNoRecord(p, begun)
		return e
	}
	if end.Stats != nil {
		e.geminiUsed(*end.Stats, asked, p.Model)
	}
	switch {
	case end.Error != nil && p.ExitCode != 0:
		e.geminiFailed(p.ExitCode, end)
	case end.Error != nil:
		e.end(Discarded, "%s", words(end.Error.Message))
	case killed(p.ExitCode):
		e.cutShort(p)
	case p.ExitCode != 0:
		e.end(Discarded, "exit status %d%s", p.ExitCode, lastWords(p.Stderr))
	case end.Status != "success":
		e.end(Discarded, "it ended as %q without an error and without an answer", words(end.Status))
	default:
		e.answered()
	}
	if (e.Class == Answered || e.Class == Discarded) && p.Model == "" && asked != "" && e.Model != "" && !strings.HasPrefix(asked, "auto") && !sameModel(asked, e.Model) {
		e.end(Fatal, "the model %q answered, but %q was asked for", e.Model, asked)
	}
	return e
}

// geminiDocument reads standard output as the one document of json.
func geminiDocument(stdout []byte) (geminiEvent, bool) {
	var doc geminiEvent
	err := json.Unmarshal(stdout, &doc)
	return doc, err == nil && doc.Type == "" && (doc.Response != nil || doc.Error != nil)
}

// geminiError finds the document of an error, the last thing of standard error,
// whatever warnings and traces stand before it.
func geminiError(stderr []byte) (geminiEvent, bool) {
	const room, tries = 64 << 10, 32
	stderr = stderr[max(0, len(stderr)-room):]
	for end, n := len(stderr), 0; end > 0 && n < tries; n++ {
		begin := bytes.LastIndex(stderr[:end], []byte("{\n"))
		if begin < 0 {
			break
		}
		if begin == 0 || stderr[begin-1] == '\n' || bytes.HasSuffix(stderr[:begin], []byte("] ")) {
			var doc geminiEvent
			err := json.NewDecoder(bytes.NewReader(stderr[begin:])).Decode(&doc)
			if err == nil && doc.Error != nil {
				return doc, true
			}
		}
		end = begin
	}
	return geminiEvent{}, false
}

func (e *Ending) geminiNoRecord(p Printed, begun bool) {
	switch {
	case begun || killed(p.ExitCode):
		e.cutShort(p)
	case p.ExitCode == 42 && beginsWith(p.Stderr, "Error resuming session"):
		e.SessionLost = true
		e.end(Fatal, "it does not have the session that was to go on")
	case p.ExitCode >= geminiLowest && p.ExitCode <= geminiHighest:
		e.TokensKnown = true
		e.end(Fatal, "it did not begin (exit status %d)%s", p.ExitCode, lastWords(p.Stderr))
	case p.ExitCode != 0:
		e.end(Transient, "it failed without a record (exit status %d)%s", p.ExitCode, lastWords(p.Stderr))
	default:
		e.notBegun(p)
	}
}

// geminiUsed takes the tokens, and of the models that answered the one that was
// asked for, or else the one that did the most.
func (e *Ending) geminiUsed(s geminiStats, asked, policy string) {
	e.Tokens = Tokens{Input: s.Input, Cached: s.Cached, Output: s.Total - s.Input}
	var names []string
	most := map[string]int64{}
	for name, m := range s.Models {
		if s.Total == 0 {
			e.Tokens.Input += m.Tokens.Prompt
			e.Tokens.Cached += m.Tokens.Cached
			e.Tokens.Output += m.Tokens.Total - m.Tokens.Prompt
		}
		if most[name] = max(m.Total, m.Tokens.Total); most[name] > 0 {
			names = append(names, name)
		}
	}
	if t := e.Tokens; t.Input < 0 || t.Cached < 0 || t.Output < 0 || t.Cached > t.Input {
		e.Tokens = Tokens{}
	} else {
		e.TokensKnown = true
	}
	slices.SortFunc(names, func(a, b string) int {
		if most[a] != most[b] {
			return int(min(max(most[b]-most[a], -1), 1))
		}
		return strings.Compare(a, b)
	})
	for _, want := range []string{policy, asked} {
		for _, name := range names {
			if want != "" && sameModel(want, name) {
				e.Model = name
				return
			}
		}
	}
	if len(names) > 0 {
		e.Model = names[0]
	}
}

// Gemini's own exit statuses: what it cannot begin with, and a limit of turns.
const (
	geminiLowest  = 41
	geminiTurns   = 53
	geminiHighest = 55
)

var (
	geminiWrapped = regexp.MustCompile(`(?s)^\[API Error: (.*?)\](?:\n.*)?$`)
	geminiRetry   = regexp.MustCompile(`(?:Suggested retry after|Please retry in) ([0-9.]+)s`)
	geminiReset   = regexp.MustCompile(`^You have exhausted your capacity on this model\. Your quota will reset after ([0-9hms.]*[hms])`)
)

func (e *Ending) geminiFailed(exit int, end *geminiEvent) {
	message := end.Error.Message
	if m := geminiWrapped.FindStringSubmatch(message); m != nil {
		message = m[1]
	}
	code := 0
	if n, err := json.Number(end.Error.Code).Int64(); err == nil && n >= 400 && n < 600 {
		code = int(n)
	} else if exit >= 400-256 && exit < 256 {
		code = exit + 256
	}
	var body struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(message), &body) == nil && body.Error.Message != "" {
		message = body.Error.Message
		if code == 0 {
			code = body.Error.Code
		}
	}
	text := words(message)
	switch {
	case exit == geminiTurns || end.Error.Type == "FatalTurnLimitedError":
		e.end(Budget, "%s", text)
	case code == 429:
		e.geminiQuota(message, text)
	case code == 400 && strings.HasPrefix(message, "The input token count "):
		e.end(Context, "%s", text)
	case code == 0 && strings.HasPrefix(message, "models/") && strings.Contains(message, " is not found for API version "):
		e.status(404, text)
	case code == 0 && exit >= geminiLowest && exit <= geminiHighest:
		e.end(Fatal, "%s", text)
	default:
		e.status(code, text)
	}
}

// geminiQuota tells a quota that is used up from a rate: the daily quota has no
// time, others tell how long to wait.
func (e *Ending) geminiQuota(message, text string) {
	if m := geminiReset.FindStringSubmatch(message); m != nil {
		wait, err := time.ParseDuration(m[1])
		if err != nil {
			wait = 0
		}
		e.limited(wait, text)
		return
	}
	var wait time.Duration
	if m := geminiRetry.FindStringSubmatch(message); m != nil {
		wait = seconds(m[1])
	}
	if strings.HasPrefix(message, "You have exhausted your daily quota") {
		e.limited(wait, text)
		return
	}
	e.throttled(wait, text)
}

// geminiCommand is the command line of Gemini CLI. It reads GEMINI.md wherever
// it may look, and no setting stops that; so a role that changes nothing looks
// at a copy of the files without it, and the advisor at nothing.
func geminiCommand(r request) (invocation, error) {
	home := r.value("HOME")
	in := invocation{env: []string{"GEMINI_CLI_NO_RELAUNCH=true", "GEMINI_TELEMETRY_ENABLED=false"}}
	args := []string{"--output-format", "stream-json", "--skip-trust", "-e", "none", "--allowed-mcp-server-names", "interlock-none"}
	settings := map[string]any{
		// Its own retries sleep out a quota, for hours.
		"general":     map[string]any{"maxAttempts": 1, "enableAutoUpdate": false, "enableAutoUpdateNotification": false},
		"skills":      map[string]any{"enabled": false},
		"hooksConfig": map[string]any{"enabled": false},
		"privacy":     map[string]any{"usageStatisticsEnabled": false},
	}
	if auth := r.geminiAuth(); auth != "" {
		settings["security"] = map[string]any{"auth": map[string]any{"selectedType": auth}}
	}
	if r.role.ReadOnly() {
		args = append(args, "--approval-mode", "plan")
		settings["tools"] = map[string]any{"core": []string{"read_file", "read_many_files", "grep_search", "glob", "list_directory"}}
		in.dir = filepath.Join(r.own, "view")
		if err := mirror(r.dir, in.dir); err != nil {
			return in, err
		}
	} else {
		args = append(args, "--approval-mode", "yolo")
		if deny := r.denied(); len(deny) > 0 {
			policy := filepath.Join(r.own, "gemini-policy.toml")
			if err := os.WriteFile(policy, geminiPolicy(r.dir, deny), 0o600); err != nil {
				return in, fmt.Errorf("folders of an agent: %w", err)
			}
			args = append(args, "--policy", policy)
		}
	}
	// A HOME that policy passes is a person's, with settings of its own.
	if within(r.own, home) {
		doc, err := json.Marshal(settings)
		if err != nil {
			return in, err
		}
		folder := filepath.Join(home, ".gemini")
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "settings.json"), doc, 0o600)); err != nil {
			return in, fmt.Errorf("folders of an agent: %w", err)
		}
	}
	if r.Agent.Model != "" {
		args = append(args, "-m", r.Agent.Model)
	}
	if r.Session != "" {
		args = append(args, "--resume", r.Session)
	}
	in.args = args
	return in, nil
}

// geminiAuth is the login for which there are variables.
func (r request) geminiAuth() string {
	switch {
	case r.value("GEMINI_API_KEY") != "":
		return "gemini-api-key"
	case r.value("GOOGLE_GENAI_USE_VERTEXAI") != "":
		return "vertex-ai"
	case r.value("GOOGLE_GENAI_USE_GCA") != "":
		return "oauth-personal"
	}
	return ""
}

// geminiPolicy denies edits of files that globs match, however the path is
// written. Gemini refuses patterns in which a group repeats, so that a glob
// becomes several.
func geminiPolicy(dir string, globs []string) []byte {
	var b bytes.Buffer
	for _, glob := range globs {
		for _, pattern := range globPatterns(glob) {
			for _, root := range []string{"", "./", dir + "/"} {
				text, err := json.Marshal(`"file_path":"` + regexp.QuoteMeta(root) + pattern + `"`)
				if err != nil {
					continue
				}
				fmt.Fprintf(&b, "[[rule]]\ntoolName = [\"write_file\", \"replace\"]\nargsPattern = %s\ndecision = \"deny\"\npriority = 999\n\n", text)
			}
		}
	}
	return b.Bytes()
}

// globPatterns writes a glob of paths as regular expressions.
func globPatterns(glob string) []string {
	if before, after, ok := strings.Cut(glob, "**/"); ok && strings.Count(glob, "**/") <= 4 {
		var all []string
		for _, rest := range globPatterns(after) {
			all = append(all, globPattern(before)+rest, globPattern(before)+`[^"]*/`+rest)
		}
		return all
	}
	return []string{globPattern(glob)}
}

func globPattern(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch {
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(`[^"]*`)
			i++
		case glob[i] == '*':
			b.WriteString(`[^"/]*`)
		case glob[i] == '?':
			b.WriteString(`[^"/]`)
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	return b.String()
}
