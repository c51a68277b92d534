package agent

import (
	"bytes"
	"encoding/json"
	"iter"
	"regexp"
	"strings"

	"interlock/activities/evidence"
)

// events yields the JSON objects of a stream, each on a line of its own, or in
// one array. What is none is left out, as is a line that was cut.
func events(stream []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		for line := range bytes.Lines(stream) {
			line = bytes.TrimSpace(line)
			if len(line) == 0 {
				continue
			}
			switch line[0] {
			case '{':
				if json.Valid(line) && !yield(line) {
					return
				}
			case '[':
				var list []json.RawMessage
				if json.Unmarshal(line, &list) != nil {
					continue
				}
				for _, e := range list {
					if e = bytes.TrimSpace(e); len(e) > 0 && e[0] == '{' && !yield(e) {
						return
					}
				}
			}
		}
	}
}

// read unmarshals what fits of an event: a member of another type than this
// version knows is left as it was.
func read(event json.RawMessage, into any) {
	_ = json.Unmarshal(event, into)
}

// figure is a number as it is written; what is none is left out, and does not
// spoil the record that it is in.
type figure json.Number

func (f *figure) UnmarshalJSON(b []byte) error {
	*f = ""
	var n json.Number
	if len(b) > 0 && b[0] != '"' && json.Unmarshal(b, &n) == nil {
		*f = figure(n)
	}
	return nil
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// beginsWith reports whether a line of standard error begins so. It is asked only of
// a program that has recorded nothing: there, no model had a word.
func beginsWith(stderr []byte, beginning string) bool {
	for line := range strings.Lines(colours.ReplaceAllString(string(stderr), "")) {
		if strings.HasPrefix(line, beginning) {
			return true
		}
	}
	return false
}

// words is a text of a provider, for a reason.
func words(text string) string {
	const enough = 400
	return evidence.Line(evidence.Text(text), enough)
}
