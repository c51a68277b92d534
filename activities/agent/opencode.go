package agent

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// opencodeEvent is what opencode writes, as far as it is looked at.
type opencodeEvent struct {
	Type      string `json:"type"`
	SessionID string `json:"sessionID"`
	Part      struct {
		Message string `json:"messageID"`
		Text    string `json:"text"`
		Reason  string `json:"reason"`
		Cost    figure `json:"cost"`
		Tokens  struct {
			Input     int64 `json:"input"`
			Output    int64 `json:"output"`
			Reasoning int64 `json:"reasoning"`
			Cache     struct {
				Read  int64 `json:"read"`
				Write int64 `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
	} `json:"part"`
	Error *opencodeError `json:"error"`
}

type opencodeError struct {
	Name string `json:"name"`
	Data struct {
		Message   string            `json:"message"`
		Status    int               `json:"statusCode"`
		Retryable bool              `json:"isRetryable"`
		Headers   map[string]string `json:"responseHeaders"`
		Body      string            `json:"responseBody"`
	} `json:"data"`
}

// parseOpencode reads `opencode run --format json`. Cost and tokens are those of
// the steps of this call.
func parseOpencode(p Printed) Ending {
	var (
		e      Ending
		begun  bool
		failed *opencodeError
		reason string
		of     string // the message that the text is of
		sum    = figure("0")
		steps  int
	)
	for raw := range events(p.Stdout) {
		var ev opencodeEvent
		read(raw, &ev)
		if ev.SessionID != "" {
			begun, e.Session = true, ev.SessionID
		}
		switch ev.Type {
		case "step_start":
			reason, e.Text, of = "", "", ev.Part.Message
		case "text":
			if ev.Part.Message != of {
				e.Text, of = "", ev.Part.Message
			}
			e.Text += ev.Part.Text
		case "step_finish":
			steps++
			failed, reason = nil, ev.Part.Reason
			sum = add(sum, ev.Part.Cost)
			t := ev.Part.Tokens
			e.Tokens.Input += t.Input + t.Cache.Read + t.Cache.Write
			e.Tokens.Cached += t.Cache.Read
			e.Tokens.Output += t.Output + t.Reasoning
		case "error":
			failed, reason = ev.Error, ""
			if failed == nil {
				failed = &opencodeError{}
			}
		}
	}
	e.TokensKnown = steps > 0
	// Of a program that was ended before it had a figure, nothing is known.
	if failed != nil || steps > 0 && (!killed(p.ExitCode) || e.Tokens != Tokens{}) {
		e.cost(sum)
	}
	switch {
	case failed != nil:
		e.opencodeFailed(failed)
	case !begun && beginsWith(p.Stderr, "Error: Session not found"):
		e.SessionLost = true
		e.end(Fatal, "it does not have the session that was to go on")
	case !begun:
		e.notBegun(p)
	case killed(p.ExitCode) && reason == "unknown":
		e.end(Transient, "it was ended while it asked again and again: the provider sends what is no answer")
	case killed(p.ExitCode) || reason == "":
		e.cutShort(p)
	case p.ExitCode != 0:
		e.end(Discarded, "exit status %d%s", p.ExitCode, lastWords(p.Stderr))
	case reason != "stop":
		e.end(Discarded, "it ended in the middle of its work (%s)", words(reason))
	default:
		e.answered()
	}
	return e
}

func (e *Ending) opencodeFailed(f *opencodeError) {
	text := words(f.Data.Message)
	if text == "" {
		text = words(f.Name)
	}
	var body struct {
		Error struct {
			Type string `json:"type"`
			Code any    `json:"code"`
		} `json:"error"`
	}
	read(json.RawMessage(f.Data.Body), &body)
	switch f.Name {
	case "ContextOverflowError":
		e.end(Context, "%s", text)
		return
	case "ProviderAuthError", "ProviderModelNotFoundError", "ModelNotFoundError", "ProviderInitError", "ConfigInvalidError", "ConfigJsonError":
		e.end(Fatal, "%s", text)
		return
	case "MessageOutputLengthError", "StructuredOutputError", "ContentFilterError":
		e.end(Discarded, "%s", text)
		return
	case "MessageAbortedError":
		e.end(Unanswered, "it was interrupted: %s", text)
		return
	}
	code := f.Data.Status
	switch {
	case code == 429 && (body.Error.Code == "insufficient_quota" || body.Error.Type == "insufficient_quota" || body.Error.Type == "usage_limit_reached"):
		e.limited(retryAfter(f.Data.Headers), text)
	case code == 429:
		e.throttled(retryAfter(f.Data.Headers), text)
	case code == 400 && body.Error.Code == "context_length_exceeded":
		e.end(Context, "%s", text)
	default:
		e.status(code, text)
	}
}

// retryAfter reads how long the provider asks to wait.
func retryAfter(headers map[string]string) time.Duration {
	for name, value := range headers {
		switch strings.ToLower(name) {
		case "retry-after-ms":
			if ms, err := strconv.ParseInt(value, 10, 32); err == nil && ms > 0 {
				return time.Duration(ms) * time.Millisecond
			}
		case "retry-after":
			if wait := seconds(value); wait > 0 {
				return wait
			}
		}
	}
	return 0
}

// opencodeCommand is the command line of opencode. It loads no configuration,
// plug-in or skill of the repository; a role that changes nothing is denied
// every tool but those that read, the advisor all. With a file that it reads it
// gives the model the instruction files of the folders above; so such a role
// looks at a copy without them.
func opencodeCommand(r request) (invocation, error) {
	var in invocation
	if r.role.ReadOnly() {
		in.dir = filepath.Join(r.own, "view")
		if err := mirror(r.dir, in.dir); err != nil {
			return in, err
		}
	}
	permission := map[string]any{"*": "deny"}
	switch {
	case r.role == Advisor:
	case r.role.ReadOnly():
		for _, tool := range []string{"read", "grep", "glob", "list"} {
			permission[tool] = "allow"
		}
	default:
		rules := map[string]any{"*": "allow"}
		for _, glob := range r.denied() {
			rules[glob] = "deny"
			if rest, ok := strings.CutPrefix(glob, "**/"); ok {
				rules[rest] = "deny"
			}
		}
		for _, tool := range []string{"read", "grep", "glob", "list", "bash", "todowrite", "todoread", "task"} {
			permission[tool] = "allow"
		}
		permission["edit"] = rules
	}
	config := map[string]any{"permission": permission, "share": "disabled", "autoupdate": false}
	if r.Agent.Model != "" {
		config["small_model"] = r.Agent.Model
	}
	if url := r.value("OPENAI_BASE_URL"); url != "" {
		config["provider"] = map[string]any{"openai": map[string]any{"options": map[string]any{"baseURL": url}}}
	}
	doc, err := json.Marshal(config)
	if err != nil {
		return in, fmt.Errorf("configuration of opencode: %w", err)
	}
	args := []string{"run", "--format", "json", "--title", "interlock"}
	if r.Agent.Model != "" {
		args = append(args, "-m", r.Agent.Model)
	}
	if r.Session != "" {
		args = append(args, "-s", r.Session)
	}
	env := []string{"OPENCODE_CONFIG_CONTENT=" + string(doc)}
	for _, name := range []string{
		"AUTOUPDATE", "MODELS_FETCH", "PROJECT_CONFIG", "CLAUDE_CODE", "EXTERNAL_SKILLS", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE",
	} {
		env = append(env, "OPENCODE_DISABLE_"+name+"=1")
	}
	env = append(env, "OPENCODE_PURE=1")
	for _, folder := range [][2]string{{"XDG_DATA_HOME", ".local/share"}, {"XDG_CONFIG_HOME", ".config"}, {"XDG_CACHE_HOME", ".cache"}, {"XDG_STATE_HOME", ".local/state"}} {
		env = append(env, folder[0]+"="+r.folder(folder[0], folder[1]))
	}
	in.args, in.env, in.stuck = args, env, opencodeStuck
	return in, nil
}

// opencodeStuck counts steps that ended without an answer: opencode takes them
// for work and goes on for ever.
func opencodeStuck(event json.RawMessage) (stuck, moving bool) {
	var ev opencodeEvent
	read(event, &ev)
	if ev.Type != "step_finish" {
		return false, false
	}
	return ev.Part.Reason == "unknown", ev.Part.Reason != "unknown"
}
