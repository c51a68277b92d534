package agent

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// codexEvent is what Codex writes, as far as it is looked at.
type codexEvent struct {
	Type     string `json:"type"`
	ThreadID string `json:"thread_id"`
	Message  string `json:"message"`
	Item     struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"item"`
	Usage *codexUsage `json:"usage"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

type codexUsage struct {
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached_input_tokens"`
	Output int64 `json:"output_tokens"`
}

// parseCodex reads `codex exec --json`. Its counters go over the whole session;
// it has no price and names no model, and its errors are sentences of its own.
func parseCodex(p Printed) Ending {
	var (
		e         Ending
		begun     bool
		completed bool
		failed    *string
		retrying  string // the last thing is that it tries again
		used      *codexUsage
		items     int // in this turn
	)
	for raw := range events(p.Stdout) {
		var ev codexEvent
		read(raw, &ev)
		if ev.Type != "error" {
			retrying = ""
		}
		switch ev.Type {
		case "thread.started":
			begun, e.Session = true, ev.ThreadID
		case "item.started", "item.updated":
			items++
		case "turn.started":
			items = 0
			begun, completed, failed, e.Text = true, false, nil, ""
		case "item.completed":
			items++
			if ev.Item.Type == "agent_message" {
				e.Text = ev.Item.Text
			}
		case "error":
			if strings.HasPrefix(ev.Message, "Reconnecting...") {
				retrying = ev.Message
			}
		case "turn.completed":
			completed, failed, used = true, nil, ev.Usage
		case "turn.failed":
			completed, failed = false, &ev.Error.Message
		}
	}
	log := readCodexLog(p.Log)
	if used == nil {
		used = log.used
	}
	if used != nil {
		e.Tokens = Tokens{Input: used.Input - p.Before.Input, Cached: used.Cached - p.Before.Cached, Output: used.Output - p.Before.Output}
		if t := e.Tokens; t.Input < 0 || t.Cached < 0 || t.Output < 0 || t.Cached > t.Input {
			e.Tokens = Tokens{}
		} else {
			e.TokensKnown = true
		}
	} else {
		e.TokensKnown = log.ended
	}
	e.Model = log.model
	switch {
	case failed != nil:
		e.codexFailed(*failed, p, log)
	case !completed && killed(p.ExitCode) && retrying != "":
		if items == 0 { // it has reached no model
			e.Tokens, e.TokensKnown = Tokens{}, true
		}
		e.end(Transient, "it was ended while it tried again and again: %s", words(retrying))
	case !completed && begun:
		e.cutShort(p)
	case !completed && beginsWith(p.Stderr, "Error: thread/resume: thread/resume failed: no rollout found"):
		e.SessionLost = true
		e.end(Fatal, "it does not have the session that was to go on")
	case !completed:
		e.notBegun(p)
	case killed(p.ExitCode):
		e.cutShort(p)
	case p.ExitCode != 0:
		e.end(Discarded, "exit status %d%s", p.ExitCode, lastWords(p.Stderr))
	default:
		e.answered()
	}
	return e
}

// codexFailures are the sentences with which Codex says why a turn failed,
// each by its beginning, and codexInfos the words of its session file for the
// same. The sentences come first: they tell more.
var codexFailures = []struct {
	beginning string
	class     Class
}{
	{"You’ve hit your usage limit", Limit},
	{"You've hit your usage limit", Limit},
	{"Quota exceeded.", Fatal},
	{"To use Codex with your ChatGPT plan", Fatal},
	{"The model `", Fatal},
	{"Missing environment variable", Fatal},
	{"budget reached", Budget},
	{"Codex ran out of room in the model's context window", Context},
	{"Incomplete response returned", Discarded},
	{"Selected model is at capacity", Transient},
	{"We’re currently experiencing high demand", Transient},
	{"We're currently experiencing high demand", Transient},
	{"stream disconnected before completion", Transient},
}

var codexInfos = map[string]Class{
	"usage_limit_exceeded":    Limit,
	"context_window_exceeded": Context,
	"model_not_found":         Fatal,
	"unauthorized":            Fatal,
	"bad_request":             Fatal,
	"rate_limit_exceeded":     Transient,
	"server_overloaded":       Transient,
	"internal_server_error":   Transient,
}

var (
	codexStatus = regexp.MustCompile(`^(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b`)
	codexWait   = regexp.MustCompile(`^rate limit exceeded:.*[Tt]ry again in ([0-9.]+(?:ms|s|m|h)(?:[0-9.]+(?:ms|s|m))*)\.?$`)
)

func (e *Ending) codexFailed(message string, p Printed, log codexLog) {
	text := words(message)
	for _, f := range codexFailures {
		if !strings.HasPrefix(message, f.beginning) {
			continue
		}
		if f.class == Limit {
			e.ResetAt = log.resetsAt
			if e.ResetAt.IsZero() {
				e.ResetAt = codexReset(message, p.At, e.Session)
			}
		}
		e.end(f.class, "%s", text)
		return
	}
	if m := codexStatus.FindStringSubmatch(message); m != nil {
		code, _ := strconv.Atoi(m[1])
		e.status(code, text)
		return
	}
	if strings.HasPrefix(message, "rate limit exceeded") {
		wait := time.Duration(0)
		if m := codexWait.FindStringSubmatch(message); m != nil {
			wait, _ = time.ParseDuration(m[1])
		}
		e.throttled(wait, text)
		return
	}
	var body struct {
		Error struct {
			Type string `json:"type"`
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(message), &body) == nil {
		switch {
		case body.Error.Code == "context_length_exceeded":
			e.end(Context, "%s", text)
			return
		case body.Error.Type == "invalid_request_error":
			e.end(Fatal, "the provider refuses the request: %s", text)
			return
		}
	}
	if class, ok := codexInfos[log.info]; ok {
		if class == Limit {
			e.ResetAt = log.resetsAt
		}
		e.end(class, "%s", text)
		return
	}
	e.status(log.status, text)
}

var codexTryAt = regexp.MustCompile(`try again at (.+)\.$`)

// codexReset reads the time at which a usage limit ends: a time of the day, or a
// day and a time, without a zone: it is that of TZ, which is UTC for programs
// that were started here.
func codexReset(message string, now time.Time, thread string) time.Time {
	m := codexTryAt.FindStringSubmatch(message)
	if m == nil {
		return time.Time{}
	}
	if t, err := time.Parse("Jan 2 2006 3:04 PM", ordinal.ReplaceAllString(strings.Replace(m[1], ",", "", 1), "$1")); err == nil {
		return t
	}
	t, err := time.Parse("3:04 PM", m[1])
	if err != nil {
		return time.Time{}
	}
	if now.IsZero() {
		if now = threadBegan(thread); now.IsZero() {
			return time.Time{}
		}
	}
	now = now.UTC()
	next := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	if next.Add(time.Minute).Before(now) { // it names no seconds
		next = next.AddDate(0, 0, 1)
	}
	return next
}

var ordinal = regexp.MustCompile(`(\d)(?:st|nd|rd|th)\b`)

// threadBegan is the time in the id of a thread, which is a UUID of version 7.
func threadBegan(id string) time.Time {
	hexed := strings.ReplaceAll(id, "-", "")
	if len(hexed) != 32 || hexed[12] != '7' {
		return time.Time{}
	}
	b, err := hex.DecodeString(hexed[:12])
	if err != nil {
		return time.Time{}
	}
	var ms int64
	for _, x := range b {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms)
}

// codexLog is what a session file says of the last turn.
type codexLog struct {
	model    string
	used     *codexUsage // of the whole session
	ended    bool        // the last turn has a record of its end
	info     string      // why the turn failed
	status   int         // HTTP, if info tells one
	resetsAt time.Time
}

func readCodexLog(log []byte) codexLog {
	var l codexLog
	for raw := range events(log) {
		var ev struct {
			Type    string `json:"type"`
			Payload struct {
				Type  string `json:"type"`
				Model string `json:"model"`
				Info  *struct {
					Total *codexUsage `json:"total_token_usage"`
				} `json:"info"`
				RateLimits *struct {
					Primary, Secondary *struct {
						Used     float64 `json:"used_percent"`
						ResetsAt int64   `json:"resets_at"`
					}
				} `json:"rate_limits"`
				Error struct {
					Info json.RawMessage `json:"codex_error_info"`
				} `json:"error"`
			} `json:"payload"`
		}
		read(raw, &ev)
		switch {
		case ev.Type == "turn_context":
			l.model = ev.Payload.Model
		case ev.Type != "event_msg":
		case ev.Payload.Type == "task_started":
			l.ended, l.info, l.status, l.resetsAt = false, "", 0, time.Time{}
		case ev.Payload.Type == "token_count":
			if ev.Payload.Info != nil && ev.Payload.Info.Total != nil {
				l.used = ev.Payload.Info.Total
			}
			if limits := ev.Payload.RateLimits; limits != nil {
				l.resetsAt = time.Time{}
				if w := limits.Primary; w != nil && w.Used >= 100 {
					l.resetsAt = at(w.ResetsAt)
				}
				if w := limits.Secondary; w != nil && w.Used >= 100 && at(w.ResetsAt).After(l.resetsAt) {
					l.resetsAt = at(w.ResetsAt)
				}
			}
		case ev.Payload.Type == "task_complete":
			l.ended = true
			l.info, l.status = codexInfo(ev.Payload.Error.Info)
		}
	}
	return l
}

// codexInfo reads a word, or an object with a word and an HTTP status.
func codexInfo(raw json.RawMessage) (info string, status int) {
	if json.Unmarshal(raw, &info) == nil {
		return info, 0
	}
	var object map[string]struct {
		Status int `json:"http_status_code"`
	}
	if json.Unmarshal(raw, &object) == nil && len(object) == 1 {
		for word, detail := range object {
			return word, detail.Status
		}
	}
	return "", 0
}

// codexSession is the session file of a thread, or nothing.
func codexSession(home, thread string) []byte {
	if !sessionName.MatchString(thread) {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(home, "sessions", "*", "*", "*", "rollout-*-"+thread+".jsonl"))
	if err != nil || len(found) == 0 {
		return nil
	}
	data, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		return nil
	}
	return data
}

// codexCommand is the command line of Codex. A role that changes nothing runs
// in its read-only sandbox, in which it reads through a shell, the only means
// it has; the advisor has no shell. Codex loads no configuration, instruction
// file, skill or plug-in of the repository.
func codexCommand(r request) (invocation, error) {
	schema := filepath.Join(r.own, "answer-schema.json")
	home := r.folder("CODEX_HOME", ".codex")
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(schema, everyMember(r.role), 0o600)); err != nil {
		return invocation{}, fmt.Errorf("folders of an agent: %w", err)
	}
	sandbox := "workspace-write"
	if r.role.ReadOnly() {
		sandbox = "read-only"
	}
	args := []string{
		"exec", "--json", "-s", sandbox, "-C", r.dir, "--skip-git-repo-check", "--ignore-rules", "--output-schema", schema,
		"-c", "project_doc_max_bytes=0", "-c", "skills.include_instructions=false", "-c", "features.skill_search=false",
		"-c", "features.plugins=false", "-c", "features.apps=false", "-c", "features.hooks=false", "-c", "features.memories=false",
		"-c", `web_search="disabled"`, "-c", `approval_policy="never"`,
		"-c", "shell_environment_policy.ignore_default_excludes=false", // its shells see no keys
	}
	if r.role == Advisor {
		args = append(args, "-c", "features.shell_tool=false", "-c", "features.unified_exec=false")
	}
	if url := r.value("OPENAI_BASE_URL"); url != "" {
		// The variable alone is not looked at by every version.
		provider := fmt.Sprintf(`{name="interlock",base_url=%s,env_key="OPENAI_API_KEY",wire_api="responses",request_max_retries=1,stream_max_retries=1}`, strconv.Quote(url))
		args = append(args, "-c", `model_provider="interlock"`, "-c", "model_providers.interlock="+provider)
	}
	if r.Agent.Model != "" {
		args = append(args, "-m", r.Agent.Model)
	}
	if r.Session != "" {
		args = append(args, "resume", r.Session)
	}
	in := invocation{args: append(args, "-"), env: []string{"CODEX_HOME=" + home}}
	if key := r.value("OPENAI_API_KEY"); key != "" && r.value("CODEX_API_KEY") == "" {
		in.env = append(in.env, "CODEX_API_KEY="+key)
	}
	in.before = func() Tokens {
		if used := readCodexLog(codexSession(home, r.Session)).used; used != nil {
			return Tokens{Input: used.Input, Cached: used.Cached, Output: used.Output}
		}
		return Tokens{}
	}
	in.log = func(session string) []byte { return codexSession(home, session) }
	in.stuck = codexStuck
	return in, nil
}

// codexStuck counts how often Codex has waited for the network without an end:
// by itself it does so for ever.
func codexStuck(event json.RawMessage) (stuck, moving bool) {
	var ev codexEvent
	read(event, &ev)
	if ev.Type == "error" && strings.HasPrefix(ev.Message, "Reconnecting... waiting for network") {
		return true, false
	}
	return false, true
}
