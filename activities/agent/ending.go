package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"

	"interlock/activities/evidence"
	"interlock/slice"
)

// Printed is what an agent program left behind: all that a parser looks at.
type Printed struct {
	Stdout, Stderr []byte
	// ExitCode is the exit status; a shell's 128+n, or less than 0, if a signal
	// ended the program.
	ExitCode int
	// Role, if not empty, says which schema the answer must fit.
	Role Role
	// Model is the model that was asked for, as policy names it.
	Model string
	// At is when the program ended, for times of day without a date; zero means
	// when the conversation began, if the program says that.
	At time.Time
	// Log is the session file of Codex, which says more than its output.
	Log []byte
	// Before is what the session had used before this call, where a program
	// counts over the whole session.
	Before Tokens
}

// Tokens is what a call used.
type Tokens struct {
	Input  int64 `json:"input"`  // all of the input, Cached included
	Cached int64 `json:"cached"` // input that was read from a cache
	Output int64 `json:"output"` // with the reasoning
}

// Ending is what a parser makes of it.
type Ending struct {
	Class Class
	// Answer is the answer as JSON, if the class is Answered and a role was
	// given or the program has answers of a schema; Text is the last message.
	Answer json.RawMessage
	Text   string
	// CostMicroUSD is what the program says that this call cost; CostKnown is
	// false if it says nothing that can be believed.
	CostMicroUSD int64
	CostKnown    bool
	// Tokens is what the call used; TokensKnown is true if the program told it,
	// also that it was nothing.
	Tokens      Tokens
	TokensKnown bool
	// Session names the conversation, Model the model that answered; each is
	// empty if the program does not tell.
	Session, Model string
	// ResetAt is when a limit ends, Wait how long the provider asks to wait
	// before the next try; each is zero if that is not known.
	ResetAt time.Time
	Wait    time.Duration
	// Reason is one line for a person; empty if the class is Answered.
	Reason string
	// Killed is true if the program did not end by itself.
	Killed bool
	// SessionLost is true if the session that was to go on is not there.
	SessionLost bool
}

// parsers are the programs whose output this version knows.
var parsers = map[slice.Adapter]func(Printed) Ending{
	slice.AdapterClaude:   parseClaude,
	slice.AdapterCodex:    parseCodex,
	slice.AdapterGemini:   parseGemini,
	slice.AdapterOpencode: parseOpencode,
	slice.AdapterCommand:  parseCommand,
}

// Explain says how a program ended, from what it left behind alone. Only
// fields of records decide: no word of a model's message does.
func Explain(use slice.Adapter, p Printed) (Ending, error) {
	parse := parsers[use]
	if parse == nil {
		return Ending{}, fmt.Errorf("there is no agent program %q: expected claude, codex, gemini, opencode or command", use)
	}
	if p.Role != "" && Schema(p.Role) == nil {
		return Ending{}, fmt.Errorf("there is no role %q: expected one of %q", p.Role, Roles())
	}
	return explained(parse, p, evidence.NewMasker())
}

func explained(parse func(Printed) Ending, p Printed, mask *evidence.Masker) (Ending, error) {
	e := parse(p)
	e.Killed = killed(p.ExitCode)
	if !sessionName.MatchString(e.Session) {
		e.Session = ""
	}
	if e.Class == Answered && p.Role != "" {
		said, err := readMessage(p.Role, e, mask)
		if err != nil {
			return e, err
		}
		e.Answer = said.raw
		if said.wrong != nil {
			e.end(Discarded, "the answer does not fit: %v", said.wrong)
		}
	}
	if (e.Class == Answered || e.Class == Discarded) && p.Model != "" && e.Model != "" && !sameModel(p.Model, e.Model) {
		e.end(Fatal, "the model %q answered, but %q was asked for; name a model under agents in %s that the program gives", e.Model, p.Model, slice.PolicyFile)
	}
	if e.Class != Answered {
		e.Answer = nil
	}
	return e, nil
}

// sessionName is what may come back to a command line.
var sessionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$`)

func (e *Ending) end(class Class, format string, args ...any) {
	e.Class = class
	e.Reason = evidence.Line(fmt.Sprintf(format, args...), maxReason)
	if e.Reason == "" {
		e.Reason = "no reason was given"
	}
	if class != Answered {
		e.Answer = nil
	}
}

// answered ends with the last message; one without a word is no answer.
func (e *Ending) answered() {
	if strings.TrimSpace(e.Text) == "" && len(e.Answer) == 0 {
		e.end(Discarded, "its last message is empty")
		return
	}
	e.Class, e.Reason = Answered, ""
}

// limited ends at a limit that is over after a wait, if that is known; one that
// is over soon is not worth a wait of the slice.
func (e *Ending) limited(wait time.Duration, text string) {
	e.Wait = wait
	if wait > 0 && wait < soon {
		e.end(Transient, "%s", text)
		return
	}
	e.end(Limit, "%s", text)
}

// throttled is like limited where a limit without a time is one of the moment.
func (e *Ending) throttled(wait time.Duration, text string) {
	if e.Wait = wait; wait < soon {
		e.end(Transient, "%s", text)
		return
	}
	e.end(Limit, "%s", text)
}

// soon is how long a limit may last to be left to the backoff of a retry.
const soon = time.Minute

// killed reports whether an exit status says that the program did not end by
// itself: a signal up to SIGTERM, or the time-out of timeout(1). Above are the
// exit statuses of Gemini.
func killed(exit int) bool {
	return exit < 0 || exit == exitTimeout || exit > 128 && exit <= 128+15
}

const exitTimeout = 124

// cutShort is the ending of a program that left no record of its end: it was
// killed, or it does not do what this version knows.
func (e *Ending) cutShort(p Printed) {
	if killed(p.ExitCode) {
		e.end(Unanswered, "it was ended before it had answered (exit status %d)%s", p.ExitCode, lastWords(p.Stderr))
		return
	}
	e.end(Unanswered, "it ended without a record of its end (exit status %d)%s", p.ExitCode, lastWords(p.Stderr))
}

// notBegun is the ending of a program that left no record at all.
func (e *Ending) notBegun(p Printed) {
	switch stderr := bytes.TrimSpace(p.Stderr); {
	case killed(p.ExitCode):
		e.cutShort(p)
	case p.ExitCode != 0 && len(stderr) > 0 && len(bytes.TrimSpace(p.Stdout)) == 0:
		e.TokensKnown = true // it has asked no model
		e.end(Fatal, "it did not begin (exit status %d)%s", p.ExitCode, lastWords(p.Stderr))
	default:
		e.end(Discarded, "it wrote no record that this version knows (exit status %d)%s", p.ExitCode, lastWords(p.Stderr))
	}
}

// status ends as an HTTP status of the provider says, with the provider's words.
func (e *Ending) status(code int, text string) {
	switch {
	case code == 401 || code == 403:
		e.end(Fatal, "the provider refuses the login (HTTP %d): %s; look at env in %s and at the variables of the worker", code, text, slice.PolicyFile)
	case code == 402:
		e.end(Fatal, "the provider wants to be paid (HTTP %d): %s", code, text)
	case code == 404:
		e.end(Fatal, "the provider does not have it (HTTP %d): %s; look at model under agents in %s", code, text, slice.PolicyFile)
	case code == 413:
		e.end(Context, "the conversation is too long (HTTP %d): %s", code, text)
	case code == 408 || code == 409 || code == 425 || code == 429 || code >= 500 && code < 600:
		e.end(Transient, "the provider failed (HTTP %d): %s", code, text)
	case code >= 400 && code < 500:
		e.end(Fatal, "the provider refuses the request (HTTP %d): %s", code, text)
	default:
		e.end(Transient, "the provider or the network failed: %s", text)
	}
}

// cost takes an amount of US dollars that the program wrote. Zero is not
// believed of a call that used tokens: that is a model without a price.
func (e *Ending) cost(n figure) {
	_, sane := rational(n)
	usd := slice.USD(0)
	ok := false
	if sane {
		usd, ok = dollars(json.Number(n))
	}
	if !ok || usd == 0 && e.Tokens != (Tokens{}) {
		e.CostMicroUSD, e.CostKnown = 0, false
		return
	}
	e.CostMicroUSD, e.CostKnown = int64(usd), true
}

// add sums two amounts of US dollars as they are written; an amount that is
// not one makes the sum none.
func add(a, b figure) figure {
	x, ok := rational(a)
	y, ok2 := rational(b)
	if !ok || !ok2 {
		return ""
	}
	return figure(new(big.Rat).Add(x, y).FloatString(12))
}

// rational reads a number that is not absurdly long.
func rational(n figure) (*big.Rat, bool) {
	if len(n) == 0 || len(n) > maxNumber {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(string(n)), "e"); ok && len(exponent) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}

// at is a time of a number of seconds since 1970, or zero if it is none.
func at(seconds int64) time.Time {
	if seconds <= 0 || seconds >= 253402300800 { // the year 10000
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// seconds is a duration of a decimal number of seconds, or 0 if it is none.
func seconds(text string) time.Duration {
	d, err := time.ParseDuration(text + "s")
	if err != nil || d < 0 {
		return 0
	}
	return d
}

// readMessage reads the answer out of the last message: what the program says
// that it is, or one JSON document, which may stand in one fenced block.
func readMessage(r Role, e Ending, mask *evidence.Masker) (said, error) {
	doc := []byte(e.Answer)
	if len(doc) == 0 {
		doc = unfenced([]byte(e.Text))
	}
	value, wrong := parse(doc, mask)
	if wrong != nil {
		return said{wrong: wrong}, nil
	}
	return fits(r, withoutNulls(value))
}

var fence = regexp.MustCompile("^```[A-Za-z0-9]*[ \t]*\r?\n((?s).*)\r?\n[ \t]*```$")

// unfenced returns the inside of a message that is one fenced block.
func unfenced(text []byte) []byte {
	text = bytes.TrimSpace(text)
	if inside := fence.FindSubmatch(text); inside != nil && !bytes.Contains(inside[1], []byte("```")) {
		return inside[1]
	}
	return text
}

// withoutNulls leaves out the members that are null: some programs must give
// every member a value.
func withoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if member == nil {
				delete(v, key)
				continue
			}
			v[key] = withoutNulls(member)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return value
}

// sameModel reports whether the model that answered is the one that was asked
// for: by its name, by its name with a date, or by an alias such as "sonnet",
// which is a word of the name.
func sameModel(asked, answered string) bool {
	asked, answered = plainModel(asked), plainModel(answered)
	if asked == answered {
		return true
	}
	if rest, ok := strings.CutPrefix(answered, asked+"-"); ok && dated.MatchString(rest) {
		return true
	}
	if strings.ContainsAny(asked, "0123456789-") {
		return false
	}
	for _, word := range strings.Split(answered, "-") {
		if word == asked {
			return true
		}
	}
	return false
}

var dated = regexp.MustCompile(`^(\d{8}|\d{4}-\d{2}-\d{2})$`)

// plainModel leaves out the provider before a slash, a variant in brackets, and
// "-latest".
func plainModel(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = name[strings.LastIndexByte(name, '/')+1:]
	name, _, _ = strings.Cut(name, "[")
	return strings.TrimSuffix(name, "-latest")
}

// Priced returns what tokens of a model cost in millionths of a US dollar,
// rounded up, by a price table; ok is false if the table lacks the model.
func Priced(prices []slice.Price, model string, t Tokens) (microUSD int64, ok bool) {
	if model == "" || t == (Tokens{}) || t.Input < 0 || t.Cached < 0 || t.Output < 0 || t.Cached > t.Input {
		return 0, false
	}
	for _, p := range prices {
		if !sameModel(p.Model, model) && !sameModel(model, p.Model) {
			continue
		}
		cached := p.Input
		if p.CachedInput != nil {
			cached = *p.CachedInput
		}
		sum := new(big.Int)
		for _, part := range []struct {
			tokens int64
			price  slice.USD
		}{{t.Input - t.Cached, p.Input}, {t.Cached, cached}, {t.Output, p.Output}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(part.tokens), big.NewInt(int64(part.price))))
		}
		million := big.NewInt(1_000_000)
		sum.Add(sum, new(big.Int).Sub(million, big.NewInt(1))).Div(sum, million)
		if !sum.IsInt64() || sum.Int64() > int64(absurd) {
			return 0, false
		}
		return sum.Int64(), true
	}
	return 0, false
}

// parseCommand reads what a program of the adapter command left behind.
func parseCommand(p Printed) Ending {
	var e Ending
	if s, ok, err := readStopped(p.Stdout, evidence.NewMasker()); ok && err == nil && s.wrong == nil {
		e.Session, e.ResetAt, e.Wait = s.session, s.resetAt, s.wait
		e.end(s.class, "%s", s.reason)
		return e
	}
	e.Text = string(p.Stdout)
	if value, wrong := parse(p.Stdout, evidence.NewMasker()); wrong == nil {
		if object, ok := value.(map[string]any); ok {
			e.Session, _ = object["session"].(string)
			if n, ok := object["cost_usd"].(json.Number); ok {
				e.cost(figure(n))
			}
		}
	} else if p.ExitCode == 0 {
		e.end(Discarded, "the answer on standard output does not fit: %v", wrong)
		return e
	}
	switch {
	case p.ExitCode == exitNotFound || p.ExitCode == exitNotExecutable:
		e.end(Fatal, "the program cannot be run (exit status %d)%s", p.ExitCode, lastWords(p.Stderr))
	case p.ExitCode == exitTimeout:
		e.end(Unanswered, "it did not answer in time%s", lastWords(p.Stderr))
	case p.ExitCode != 0:
		e.end(Discarded, "exit status %d%s", p.ExitCode, lastWords(p.Stderr))
	default:
		e.Answer = bytes.TrimSpace(p.Stdout)
		e.answered()
	}
	return e
}
