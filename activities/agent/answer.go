package agent

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"interlock/activities/evidence"
	"interlock/slice"
)

// What an answer may be at most.
const (
	maxAnswer   = 1 << 20 // bytes
	maxDepth    = 32
	maxNumber   = 64 // characters
	maxExponent = 30
)

// ImplementAnswer is the answer of an implementer. Its words are kept as
// evidence and reach nobody.
type ImplementAnswer struct {
	Status  string `json:"status"`
	Summary string `json:"summary,omitempty"`
	// Question is for a person; it belongs to the status StatusQuestion.
	Question string `json:"question,omitempty"`
	Session  string `json:"session,omitempty"`
}

// StatusQuestion says that an implementer cannot go on before a person answers.
const StatusQuestion = "question"

// ReconcileAnswer is the answer of a reconciler.
type ReconcileAnswer struct {
	Status  string `json:"status"`
	Summary string `json:"summary,omitempty"`
	Session string `json:"session,omitempty"`
}

// JudgeAnswer is the answer of a judge: what Weigh makes a verdict of.
type JudgeAnswer struct {
	Scores   []Score         `json:"scores"`
	Findings []slice.Finding `json:"findings"`
}

// Score is what a judge gives one criterion of the rubric, from 1 to 5.
type Score struct {
	Criterion string `json:"criterion"`
	Score     int    `json:"score"`
	Reason    string `json:"reason"`
}

// SkepticAnswer is the answer of a skeptic: whether a finding holds. Line counts
// from 1, and Quote is the line there, and those that follow it.
type SkepticAnswer struct {
	Verdict Opinion `json:"verdict"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Quote   string  `json:"quote"`
	Reason  string  `json:"reason"`
}

// AdviseAnswer is the answer of an advisor.
type AdviseAnswer struct {
	Advice string `json:"advice"`
}

//go:embed schema/*.json
var schemaFiles embed.FS

// Schema returns the JSON Schema of the answer of a role, or nil if there is
// no such role.
func Schema(r Role) json.RawMessage {
	b, err := schemaFiles.ReadFile("schema/" + string(r) + ".json")
	if err != nil {
		return nil
	}
	return b
}

// modelSchema is Schema without what a program tells and a model cannot know.
func modelSchema(r Role) json.RawMessage {
	var doc map[string]any
	if json.Unmarshal(Schema(r), &doc) != nil {
		return nil
	}
	delete(doc, "$schema")
	if properties, ok := doc["properties"].(map[string]any); ok {
		delete(properties, "session")
		delete(properties, "cost_usd")
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil
	}
	return b
}

// everyMember is modelSchema for providers that want every member required and
// know few keywords: one that may be left out may be null. What is dropped is
// checked here when the answer is read.
func everyMember(r Role) json.RawMessage {
	var doc any
	if json.Unmarshal(modelSchema(r), &doc) != nil {
		return nil
	}
	b, err := json.Marshal(demanding(doc, false))
	if err != nil {
		return nil
	}
	return b
}

func demanding(schema any, optional bool) any {
	from, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	to := map[string]any{}
	for _, key := range []string{"type", "description", "enum"} {
		if v, ok := from[key]; ok {
			to[key] = v
		}
	}
	if enum, ok := to["enum"].([]any); ok {
		to["type"] = "string"
		if optional {
			to["enum"] = append(enum, nil)
		}
	}
	if items, ok := from["items"]; ok {
		to["items"] = demanding(items, false)
	}
	if properties, ok := from["properties"].(map[string]any); ok {
		required, _ := from["required"].([]any)
		all, names := map[string]any{}, []string{}
		for name, property := range properties {
			all[name] = demanding(property, !slices.Contains(required, any(name)))
			names = append(names, name)
		}
		slices.Sort(names)
		to["properties"], to["required"], to["additionalProperties"] = all, names, false
	}
	if kind, ok := to["type"].(string); ok && optional {
		to["type"] = []string{kind, "null"}
	}
	return to
}

var compiled = sync.OnceValues(func() (map[Role]*jsonschema.Schema, error) {
	schemas := map[Role]*jsonschema.Schema{}
	for _, r := range Roles() {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(r)))
		if err != nil {
			return nil, err
		}
		c := jsonschema.NewCompiler()
		url := "mem:///" + string(r) + ".json"
		if err := c.AddResource(url, doc); err != nil {
			return nil, err
		}
		if schemas[r], err = c.Compile(url); err != nil {
			return nil, err
		}
	}
	return schemas, nil
})

// said is what could be read of an answer.
type said struct {
	raw       json.RawMessage
	session   string
	cost      slice.USD
	costKnown bool
	// wrong says why the answer does not fit; nil if it does.
	wrong error
}

// readAnswer reads standard output as the answer of a role. The cost may be
// known although the answer does not fit.
func readAnswer(r Role, stdout []byte, mask *evidence.Masker) (said, error) {
	value, wrong := parse(stdout, mask)
	if wrong != nil {
		return said{wrong: wrong}, nil
	}
	return fits(r, value)
}

// fits checks a value as the answer of a role.
func fits(r Role, value any) (said, error) {
	schemas, err := compiled()
	if err != nil {
		return said{}, fmt.Errorf("schema of the %s: %w", r, err)
	}
	var s said
	if object, ok := value.(map[string]any); ok {
		s.session, _ = object["session"].(string)
		if n, ok := object["cost_usd"].(json.Number); ok {
			s.cost, s.costKnown = dollars(n)
		}
	}
	var invalid *jsonschema.ValidationError
	switch err := schemas[r].Validate(value); {
	case errors.As(err, &invalid):
		s.session, s.wrong = "", explain(invalid)
		return s, nil
	case err != nil:
		return said{}, fmt.Errorf("schema of the %s: %w", r, err)
	}
	s.raw, err = json.Marshal(value)
	var asks ImplementAnswer
	if err == nil && json.Unmarshal(s.raw, &asks) == nil && (asks.Status == StatusQuestion) != (strings.TrimSpace(asks.Question) != "") {
		s.raw, s.session, s.wrong = nil, "", &placeError{[]string{"question"}, "it belongs to the status question, which needs one"}
	}
	return s, err
}

// Fits returns nil if doc is an answer that fits the schema of a role, or what
// does not fit, with its place.
func Fits(r Role, doc []byte) error {
	if Schema(r) == nil {
		return fmt.Errorf("there is no role %q", r)
	}
	s, err := readAnswer(r, doc, evidence.NewMasker())
	if err != nil {
		return err
	}
	return s.wrong
}

// dollars reads an amount exactly. What is less than a millionth is rounded
// up, so that no sum of charges is below what was spent.
func dollars(n json.Number) (slice.USD, bool) {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok || r.Sign() < 0 {
		return 0, false
	}
	r.Mul(r, big.NewRat(1_000_000, 1))
	micro := new(big.Int).Div(new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1))), r.Denom())
	usd, err := slice.ParseUSD(new(big.Rat).SetFrac(micro, big.NewInt(1_000_000)).FloatString(6))
	return usd, err == nil && usd <= absurd
}

// absurd is the cost of one call that is not believed; the schemas have it too.
const absurd = slice.USD(1000 * 1_000_000)

// explain returns the first thing that does not fit, with its place as a JSON
// pointer.
func explain(e *jsonschema.ValidationError) error {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	return &placeError{e.InstanceLocation, e.ErrorKind.LocalizedString(message.NewPrinter(language.English))}
}

// placeError is what is wrong at a place of a JSON document.
type placeError struct {
	path []string
	what string
}

func (e *placeError) Error() string {
	if len(e.path) == 0 {
		return "at the top: " + e.what
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, p := range e.path {
		b.WriteString("/" + escape.Replace(p))
	}
	return "at " + b.String() + ": " + e.what
}

// parse reads one JSON document as strictly as it can be read. Numbers are
// json.Number, whole ones without point and exponent; strings are masked.
func parse(doc []byte, mask *evidence.Masker) (any, error) {
	switch {
	case len(bytes.TrimSpace(doc)) == 0:
		return nil, errors.New("nothing was written to standard output")
	case len(doc) > maxAnswer:
		return nil, fmt.Errorf("it has more than %d bytes", maxAnswer)
	case !utf8.Valid(doc):
		return nil, errors.New("it is not UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(doc, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("it is not one JSON document: %w (byte %d)", err, syntax.Offset)
		}
		return nil, fmt.Errorf("it is not one JSON document: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	return (&strict{dec: dec, mask: mask}).value()
}

type strict struct {
	dec  *json.Decoder
	mask *evidence.Masker
	path []string
}

func (s *strict) fail(format string, args ...any) error {
	return &placeError{s.path, fmt.Sprintf(format, args...)}
}

func (s *strict) value() (any, error) {
	if len(s.path) > maxDepth {
		return nil, s.fail("nested more than %d deep", maxDepth)
	}
	token, err := s.dec.Token()
	if err != nil {
		return nil, s.fail("%v", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return s.object()
		}
		return s.array()
	case json.Number:
		return s.number(t)
	case string:
		return s.mask.String(t), nil
	default: // bool and nil
		return t, nil
	}
}

func (s *strict) within(name string) (any, error) {
	s.path = append(s.path, name)
	v, err := s.value()
	if err != nil {
		return nil, err
	}
	s.path = s.path[:len(s.path)-1]
	return v, nil
}

func (s *strict) object() (any, error) {
	object := map[string]any{}
	for s.dec.More() {
		token, err := s.dec.Token()
		if err != nil {
			return nil, s.fail("%v", err)
		}
		key, ok := token.(string)
		if !ok {
			return nil, s.fail("a key that is no string")
		}
		if _, twice := object[key]; twice {
			return nil, s.fail("the key %q is there twice", key)
		}
		if object[key], err = s.within(key); err != nil {
			return nil, err
		}
	}
	_, err := s.dec.Token()
	return object, err
}

func (s *strict) array() (any, error) {
	array := []any{}
	for s.dec.More() {
		v, err := s.within(strconv.Itoa(len(array)))
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := s.dec.Token()
	return array, err
}

// number refuses what would take for ever to compute with.
func (s *strict) number(n json.Number) (any, error) {
	text := n.String()
	exponent := 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(strings.TrimPrefix(text[i+1:], "+")); err != nil {
			exponent = maxExponent + 1
		}
	}
	if len(text) > maxNumber || exponent > maxExponent || exponent < -maxExponent {
		return nil, s.fail("a number out of all bounds")
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, s.fail("no number")
	}
	if r.IsInt() {
		return json.Number(r.Num().String()), nil
	}
	return n, nil
}
