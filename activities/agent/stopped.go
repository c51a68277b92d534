package agent

import (
	"bytes"
	_ "embed" // the schema is a file
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"interlock/activities/evidence"
)

//go:embed schema/stopped.json
var stoppedSchema []byte

// StoppedSchema returns the JSON Schema of what a program of the adapter command
// may write in place of an answer, whatever its role and its exit status: that
// it was stopped, and by what.
func StoppedSchema() json.RawMessage { return bytes.Clone(stoppedSchema) }

var compiledStopped = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(stoppedSchema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///stopped.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("mem:///stopped.json")
})

// stopped is what a program says that was stopped.
type stopped struct {
	class   Class
	resetAt time.Time
	wait    time.Duration
	session string
	reason  string
	// wrong says why the document does not fit.
	wrong error
}

// readStopped reads standard output as the word of a program that was stopped;
// ok is false if it is something else.
func readStopped(stdout []byte, mask *evidence.Masker) (s stopped, ok bool, err error) {
	value, wrong := parse(stdout, mask)
	object, isObject := value.(map[string]any)
	if wrong != nil || !isObject || object["limit"] == nil && object["failure"] == nil {
		return s, false, nil
	}
	schema, err := compiledStopped()
	if err != nil {
		return s, false, fmt.Errorf("schema of a program that was stopped: %w", err)
	}
	var invalid *jsonschema.ValidationError
	switch err := schema.Validate(value); {
	case errors.As(err, &invalid):
		return stopped{wrong: explain(invalid)}, true, nil
	case err != nil:
		return s, false, fmt.Errorf("schema of a program that was stopped: %w", err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return s, false, err
	}
	var said struct {
		Limit *struct {
			ResetAt    time.Time `json:"reset_at"`
			RetryAfter float64   `json:"retry_after"`
		} `json:"limit"`
		Failure Class  `json:"failure"`
		Reason  string `json:"reason"`
		Session string `json:"session"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return stopped{wrong: err}, true, nil
	}
	s = stopped{class: said.Failure, session: said.Session, reason: said.Reason}
	if said.Limit != nil {
		s.class, s.resetAt = Limit, said.Limit.ResetAt
		s.wait = time.Duration(said.Limit.RetryAfter * float64(time.Second))
	}
	switch {
	case s.reason != "":
	case s.class == Limit && !s.resetAt.IsZero():
		s.reason = "its account is at the provider's limit until " + s.resetAt.UTC().Format(time.DateTime) + " UTC"
	case s.class == Limit && s.wait > 0:
		s.reason = "its account is at the provider's limit for " + s.wait.Round(time.Second).String()
	case s.class == Limit:
		s.reason = "its account is at the provider's limit"
	default:
		s.reason = fmt.Sprintf("it says that it was stopped: %s", s.class)
	}
	return s, true, nil
}
