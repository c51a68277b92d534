package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"interlock/slice"
)

// claudeEvent is what Claude Code writes, as far as it is looked at.
type claudeEvent struct {
	Type      string  `json:"type"`
	Subtype   string  `json:"subtype"`
	SessionID string  `json:"session_id"`
	Model     string  `json:"model"`
	Parent    *string `json:"parent_tool_use_id"`
	Message   struct {
		Model string `json:"model"`
	} `json:"message"`
	RateLimit claudeLimit `json:"rate_limit_info"`

	// Of an error of the API, on a message that the program made up.
	Error        string `json:"error"`
	APIErrorLine bool   `json:"is_api_error_message"`
	Params       struct {
		RateLimit claudeLimit `json:"rate_limit_info"`
	} `json:"api_error_params"`

	// Of a result.
	IsError        *bool                  `json:"is_error"`
	Result         string                 `json:"result"`
	Errors         []string               `json:"errors"`
	Structured     json.RawMessage        `json:"structured_output"`
	StopReason     string                 `json:"stop_reason"`
	TerminalReason string                 `json:"terminal_reason"`
	APIStatus      int                    `json:"api_error_status"`
	APIError       string                 `json:"api_error"`
	APIErrorType   string                 `json:"api_error_type"`
	TotalCost      figure                 `json:"total_cost_usd"`
	Usage          claudeUsage            `json:"usage"`
	ModelUsage     map[string]claudeModel `json:"modelUsage"`
	Since          map[string]claudeModel `json:"model_usage_since_last_result"`
}

type claudeLimit struct {
	Status   string `json:"status"`
	ResetsAt int64  `json:"resetsAt"`
}

type claudeUsage struct {
	Input       int64 `json:"input_tokens"`
	CacheCreate int64 `json:"cache_creation_input_tokens"`
	CacheRead   int64 `json:"cache_read_input_tokens"`
	Output      int64 `json:"output_tokens"`
}

type claudeModel struct {
	Input       int64  `json:"inputTokens"`
	CacheCreate int64  `json:"cacheCreationInputTokens"`
	CacheRead   int64  `json:"cacheReadInputTokens"`
	Output      int64  `json:"outputTokens"`
	Cost        figure `json:"costUSD"`
}

func (t *Tokens) claude(input, create, read, output int64) {
	t.Input += input + create + read
	t.Cached += read
	t.Output += output
}

// parseClaude reads `claude -p --output-format stream-json`, and as far as they
// go the outputs of `--output-format json`.
func parseClaude(p Printed) Ending {
	var (
		e        Ending
		begun    bool
		last     *claudeEvent // the last result: several are normal
		apiError string       // of the last message that the program made up
		limit    claudeLimit
		resolved string // what the program made of the model that was asked for
		perModel = true // every result tells the usage since the one before
		sum      = figure("0")
	)
	for raw := range events(p.Stdout) {
		var ev claudeEvent
		read(raw, &ev)
		if ev.SessionID != "" {
			e.Session = ev.SessionID
		}
		switch ev.Type {
		case "system":
			if ev.Subtype == "init" {
				begun = true
				if resolved == "" {
					resolved = ev.Model
				}
			}
		case "assistant":
			begun = true
			switch {
			case ev.APIErrorLine:
				apiError = ev.Error
				if ev.Params.RateLimit.ResetsAt != 0 {
					limit = ev.Params.RateLimit
				}
			case ev.Parent == nil && ev.Message.Model != "" && ev.Message.Model != "<synthetic>":
				apiError = ""
				if e.Model == "" || sameModel(resolved, e.Model) {
					e.Model = ev.Message.Model
				}
			}
		case "rate_limit_event":
			limit = ev.RateLimit
		case "result":
			begun, last = true, &ev
			if ev.Since == nil {
				perModel = false
			}
			for _, m := range ev.Since {
				e.Tokens.claude(m.Input, m.CacheCreate, m.CacheRead, m.Output)
				sum = add(sum, m.Cost)
			}
		}
	}
	switch {
	case last == nil && beginsWith(p.Stderr, "No conversation found with session ID"):
		e.SessionLost = true
		e.end(Fatal, "it does not have the session that was to go on")
		return e
	case last == nil && begun:
		e.cutShort(p)
		return e
	case last == nil:
		e.notBegun(p)
		return e
	}

	e.TokensKnown = true
	if perModel {
		e.cost(sum)
	} else {
		e.claudeTotal(last)
	}
	if e.Model == "" && len(last.ModelUsage) == 1 {
		for name := range last.ModelUsage {
			e.Model = name
		}
	}
	e.Text, e.Answer = last.Result, last.Structured
	if string(e.Answer) == "null" {
		e.Answer = nil
	}
	e.claudeEnd(p, last, apiError, limit)
	if (e.Class == Answered || e.Class == Discarded) && p.Model == "" && resolved != "" && e.Model != "" && !sameModel(resolved, e.Model) {
		e.end(Fatal, "the model %q answered, but %q was asked for", e.Model, resolved)
	}
	return e
}

// claudeTotal takes the total of a session for the cost of a call, if the call
// was all of it.
func (e *Ending) claudeTotal(r *claudeEvent) {
	var all Tokens
	for _, m := range r.ModelUsage {
		all.claude(m.Input, m.CacheCreate, m.CacheRead, m.Output)
	}
	e.Tokens = Tokens{}
	e.Tokens.claude(r.Usage.Input, r.Usage.CacheCreate, r.Usage.CacheRead, r.Usage.Output)
	if e.Tokens == all {
		e.cost(r.TotalCost)
	}
}

func (e *Ending) claudeEnd(p Printed, r *claudeEvent, apiError string, limit claudeLimit) {
	text := words(r.Result)
	if text == "" {
		text = words(strings.Join(r.Errors, "; "))
	}
	failed := r.IsError == nil || *r.IsError
	switch {
	case failed && r.APIError == "usage_limit_reached":
		if limit.Status != "allowed" && limit.Status != "allowed_warning" {
			e.ResetAt = at(limit.ResetsAt)
		}
		e.end(Limit, "%s", text)
	case r.Subtype == "error_max_budget_usd" || r.TerminalReason == "budget_exhausted":
		e.end(Budget, "%s; raise usd under agents in %s", text, slice.PolicyFile)
	case r.Subtype == "error_max_turns" || r.TerminalReason == "max_turns":
		e.end(Budget, "%s", text)
	case r.Subtype == "error_max_structured_output_retries":
		e.end(Discarded, "%s", text)
	case failed && (r.TerminalReason == "prompt_too_long" || r.TerminalReason == "image_error"):
		e.end(Context, "%s", text)
	case r.Subtype == "error_during_execution":
		if len(r.Errors) > 0 && strings.HasPrefix(r.Errors[0], "No conversation found with session ID") {
			e.SessionLost = true
			e.end(Fatal, "it does not have the session that was to go on")
			return
		}
		e.end(Unanswered, "it was interrupted: %s", text)
	case failed && r.TerminalReason == "api_error":
		e.claudeAPIError(r, apiError, text)
	case failed:
		e.end(Discarded, "it failed (%s, %s): %s", words(r.Subtype), words(r.TerminalReason), text)
	case killed(p.ExitCode):
		e.cutShort(p)
	case p.ExitCode != 0:
		e.end(Discarded, "exit status %d%s", p.ExitCode, lastWords(p.Stderr))
	case r.Subtype != "success" || r.TerminalReason != "completed" && r.TerminalReason != "":
		e.end(Discarded, "it ended in a way that this version does not know (%s, %s)", words(r.Subtype), words(r.TerminalReason))
	default:
		e.answered()
	}
}

// claudeAPIError classes an error of the API by the program's own word for it,
// then by the API's, then by the HTTP status.
func (e *Ending) claudeAPIError(r *claudeEvent, apiError, text string) {
	switch apiError {
	case "authentication_failed", "oauth_org_not_allowed":
		e.end(Fatal, "the login is refused: %s; look at env in %s and at the variables of the worker", text, slice.PolicyFile)
		return
	case "billing_error":
		e.end(Fatal, "the account cannot pay: %s", text)
		return
	case "model_not_found":
		e.end(Fatal, "%s; look at model under agents in %s", text, slice.PolicyFile)
		return
	}
	switch {
	case r.APIError == "connection_failed":
		e.end(Transient, "%s", text)
	case r.APIError == "max_output_tokens" || apiError == "max_output_tokens":
		e.end(Discarded, "%s", text)
	case r.StopReason == "refusal":
		e.end(Discarded, "the model refuses: %s", text)
	case r.APIErrorType == "billing_error":
		e.end(Fatal, "the account cannot pay: %s", text)
	case apiError == "invalid_request" && r.APIStatus == 0:
		e.end(Fatal, "the provider refuses the request: %s", text)
	default:
		e.status(r.APIStatus, text)
	}
}

// claudeCommand is the command line of Claude Code. No settings of the user or
// the repository are loaded, and with them no instruction files, hooks, plug-ins
// and servers; a role that changes nothing has tools that read, the advisor none.
func claudeCommand(r request) (invocation, error) {
	args := []string{
		"-p", "--output-format", "stream-json", "--verbose",
		"--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands",
		"--json-schema", string(modelSchema(r.role)),
		"--max-budget-usd", usd(r.reservation),
	}
	if r.Agent.Model != "" {
		args = append(args, "--model", r.Agent.Model)
	}
	if r.Session != "" {
		args = append(args, "--resume", r.Session)
	}
	switch {
	case r.role == Advisor:
		args = append(args, "--tools", "", "--permission-mode", "dontAsk")
	case r.role.ReadOnly():
		args = append(args, "--tools", "Read,Grep,Glob", "--permission-mode", "dontAsk", "--allowedTools", "Read,Grep,Glob")
	default:
		args = append(args, "--tools", "Read,Edit,Write,NotebookEdit,Bash,Grep,Glob", "--permission-mode", "acceptEdits", "--allowedTools", "Bash")
		if deny := r.denied(); len(deny) > 0 {
			rules := make([]string, len(deny))
			for i, glob := range deny {
				rules[i] = fmt.Sprintf("Edit(%s)", glob)
			}
			settings, err := json.Marshal(map[string]any{"permissions": map[string]any{"deny": rules}})
			if err != nil {
				return invocation{}, err
			}
			args = append(args, "--settings", string(settings))
		}
	}
	return invocation{args: args, env: []string{
		"CLAUDE_CODE_MAX_RETRIES=2", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}}, nil
}
