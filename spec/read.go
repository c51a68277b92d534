package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// What a document may be at most.
const (
	MaxBytes = 1 << 20
	maxDepth = 32
)

type kind int

const (
	null kind = iota
	text
	number
	boolean
	list
	mapping
)

// A node is a value of a document with its place, whatever syntax it was written in.
type node struct {
	kind  kind
	value string // of text, number and boolean
	items []*node
	keys  []*node // of a mapping; items are its values
	line  int
	col   int
}

func (n *node) String() string {
	switch n.kind {
	case null:
		return "nothing"
	case text:
		return fmt.Sprintf("%.60q", n.value)
	case number:
		return "the number " + n.value
	case boolean:
		return n.value
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	}
	return "?"
}

// tree reads a document in YAML or JSON.
func tree(name string, data []byte) (*node, *Error) {
	if len(data) > MaxBytes {
		return nil, &Error{File: name, Line: 1, Column: 1, Got: fmt.Sprintf("the file has %d bytes", len(data)), Want: "at most 1 MiB"}
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if e := notText(name, data); e != nil {
		return nil, e
	}
	start := bytes.TrimLeft(data, " \t\r\n")
	if strings.HasSuffix(name, ".json") || bytes.HasPrefix(start, []byte("{")) && json.Valid(data) {
		return fromJSON(name, data)
	}
	return fromYAML(name, data)
}

func notText(name string, data []byte) *Error {
	bad := bytes.IndexByte(data, 0)
	if !utf8.Valid(data) {
		for i := 0; i < len(data); {
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 {
				if bad < 0 || i < bad {
					bad = i
				}
				break
			}
			i += size
		}
	}
	if bad < 0 {
		return nil
	}
	line, col := (&ruler{data: data}).place(bad)
	return &Error{File: name, Line: line, Column: col, Got: fmt.Sprintf("the byte 0x%02x", data[bad]), Want: "text in UTF-8"}
}

// A ruler turns offsets into places. It goes on from the last one, so that a
// document is measured once.
type ruler struct {
	data              []byte
	offset, line, col int // counted from 0
}

// place returns line and column of an offset, from 1.
func (r *ruler) place(offset int) (line, col int) {
	offset = min(offset, len(r.data))
	if offset < r.offset {
		r.offset, r.line, r.col = 0, 0, 0
	}
	passed := r.data[r.offset:offset]
	if lines := bytes.Count(passed, []byte("\n")); lines > 0 {
		r.line, r.col = r.line+lines, 0
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	r.col += utf8.RuneCount(passed)
	r.offset = offset
	return r.line + 1, r.col + 1
}

var yamlMessage = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

func fromYAML(name string, data []byte) (root *node, bad *Error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return &node{kind: null, line: 1, col: 1}, nil
	}
	if err == nil {
		if err = dec.Decode(&more); errors.Is(err, io.EOF) {
			return convert(name, doc.Content[0], 0)
		}
	}
	if err == nil {
		return nil, &Error{File: name, Line: more.Line, Column: more.Column, Got: "a second document", Want: "one document in a file"}
	}
	e := &Error{File: name, Line: 1, Column: 1, Got: err.Error()}
	if m := yamlMessage.FindStringSubmatch(err.Error()); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Got = "this is no YAML: " + m[2]
	}
	lines := strings.Split(string(data), "\n")
	e.Line = min(max(e.Line, 1), len(lines))
	for _, i := range []int{e.Line - 1, e.Line} {
		if i < len(lines) && strings.HasPrefix(strings.TrimLeft(lines[i], " "), "\t") {
			e.Line, e.Hint = i+1, "indent with spaces: YAML does not allow tabs"
			break
		}
	}
	return nil, e
}

// convert turns a YAML node into ours. It refuses what makes a document mean
// something other than what stands there: aliases, merge keys and tags.
func convert(name string, y *yaml.Node, depth int) (*node, *Error) {
	refuse := func(got, want string) (*node, *Error) {
		return nil, &Error{File: name, Line: y.Line, Column: y.Column, Got: got, Want: want}
	}
	switch {
	case depth > maxDepth:
		return refuse("it is nested too deeply", fmt.Sprintf("at most %d levels", maxDepth))
	case y.Kind == yaml.AliasNode || y.Anchor != "":
		return refuse("an anchor or alias", "every value written out where it belongs")
	case y.Style&yaml.TaggedStyle != 0:
		return refuse("a tag "+strconv.Quote(y.Tag), "a value without a tag")
	}
	n := &node{line: y.Line, col: y.Column, value: y.Value}
	switch y.Kind {
	case yaml.MappingNode:
		n.kind, n.value = mapping, ""
	case yaml.SequenceNode:
		n.kind, n.value = list, ""
	case yaml.ScalarNode:
		switch y.ShortTag() {
		case "!!merge":
			return refuse("a merge key", "every value written out where it belongs")
		case "!!null":
			n.kind = null
		case "!!int", "!!float":
			n.kind = number
		case "!!bool":
			n.kind = boolean
		default:
			n.kind = text
		}
		return n, nil
	default:
		return refuse("it cannot be read", "text, a number, a list or a mapping")
	}
	for i, child := range y.Content {
		c, e := convert(name, child, depth+1)
		if e != nil {
			return nil, e
		}
		if n.kind != mapping || i%2 == 1 {
			n.items = append(n.items, c)
			continue
		}
		if c.kind == list || c.kind == mapping {
			return nil, &Error{File: name, Line: c.line, Column: c.col, Got: c.String() + " as a key", Want: "a word as a key"}
		}
		n.keys = append(n.keys, c)
	}
	return n, nil
}

type jsonReader struct {
	name string
	ruler
	dec *json.Decoder
}

func fromJSON(name string, data []byte) (*node, *Error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return &node{kind: null, line: 1, col: 1}, nil
	}
	r := &jsonReader{name, ruler{data: data}, json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	n, e := r.node(0)
	if e != nil {
		return nil, e
	}
	at := r.next()
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, r.bad(at, "something follows the document", "one document in a file")
	}
	return n, nil
}

func (r *jsonReader) bad(offset int, got, want string) *Error {
	line, col := r.place(offset)
	return &Error{File: r.name, Line: line, Column: col, Got: got, Want: want}
}

// next returns where the next token begins.
func (r *jsonReader) next() int {
	at := int(r.dec.InputOffset())
	for at < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[at]) >= 0 {
		at++
	}
	return at
}

func (r *jsonReader) node(depth int) (*node, *Error) {
	at := r.next()
	token, err := r.dec.Token()
	if err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = max(int(syntax.Offset)-1, 0)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, r.bad(len(r.data), "this is no JSON: it ends too early", "")
		}
		return nil, r.bad(at, "this is no JSON: "+err.Error(), "")
	}
	if depth > maxDepth {
		return nil, r.bad(at, "it is nested too deeply", fmt.Sprintf("at most %d levels", maxDepth))
	}
	n := &node{}
	n.line, n.col = r.place(at)
	switch t := token.(type) {
	case nil:
		n.kind = null
	case string:
		n.kind, n.value = text, t
	case json.Number:
		n.kind, n.value = number, t.String()
	case bool:
		n.kind, n.value = boolean, strconv.FormatBool(t)
	case json.Delim:
		n.kind = list
		if t == '{' {
			n.kind = mapping
		}
		for r.dec.More() {
			c, e := r.node(depth + 1)
			if e != nil {
				return nil, e
			}
			if n.kind == mapping && len(n.keys) == len(n.items) {
				n.keys = append(n.keys, c)
			} else {
				n.items = append(n.items, c)
			}
		}
		if _, err := r.dec.Token(); err != nil {
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				return nil, r.bad(max(int(syntax.Offset)-1, 0), "this is no JSON: "+err.Error(), "")
			}
			return nil, r.bad(len(r.data), "this is no JSON: it ends too early", "")
		}
		if len(n.keys) > len(n.items) {
			return nil, r.bad(at, "this is no JSON: a key without a value", "")
		}
	}
	return n, nil
}
