package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"interlock/slice"
)

// A document is a file in the making: its places by path, and what is wrong with it.
type document struct {
	file string
	// at has the node of every path that is there; nil if the value came without a file.
	at map[string]*node
	// failed are paths that could not be read: no more is said about them.
	failed map[string]bool
	errs   Errors
}

// parse reads data into v, a pointer to a struct of the contract.
func parse(file string, data []byte, v any, empty string) *document {
	d := &document{file: file, at: map[string]*node{}, failed: map[string]bool{}}
	root, e := tree(file, data)
	if e != nil {
		d.errs = Errors{e}
		return d
	}
	if root.kind == null {
		d.errs = Errors{{File: file, Line: root.line, Column: root.col, Got: "the file is empty", Want: empty}}
		return d
	}
	d.value(root, "", reflect.ValueOf(v).Elem())
	return d
}

// bad notes an error at a path, or at the nearest place around it.
func (d *document) bad(path, got, want, hint string) {
	for p := path; ; p = parent(p) {
		if d.failed[p] {
			return
		}
		if p == "" {
			break
		}
	}
	e := &Error{File: d.file, Path: path, Got: got, Want: want, Hint: hint}
	for p := path; d.at != nil; p = parent(p) {
		if n := d.at[p]; n != nil {
			e.Line, e.Column = n.line, n.col
			break
		}
		if p == "" {
			e.Line, e.Column = 1, 1
			break
		}
	}
	d.errs = append(d.errs, e)
}

// fail notes an error at n, and that its path says nothing.
func (d *document) fail(n *node, path, got, want, hint string) {
	d.errs = append(d.errs, &Error{File: d.file, Line: n.line, Column: n.col, Path: path, Got: got, Want: want, Hint: hint})
	d.failed[path] = true
}

// where names the place of a path, for a message about another one.
func (d *document) where(path string) string {
	if n := d.at[path]; n != nil {
		return fmt.Sprintf("first at line %d", n.line)
	}
	return "first as " + path
}

func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

var (
	durationType = reflect.TypeFor[slice.Duration]()
	usdType      = reflect.TypeFor[slice.USD]()
	argvType     = reflect.TypeFor[slice.Argv]()
)

func (d *document) value(n *node, path string, v reflect.Value) {
	d.at[path] = n
	want, kinds := "", []kind{text}
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		d.value(n, path, v.Elem())
		return
	case t == durationType:
		want = `a duration such as "90s", "10m" or "1h30m"`
	case t == usdType:
		want, kinds = "a number of US dollars such as 0.25 or 12", []kind{number}
	case t == argvType:
		want, kinds = "a command: a line of shell, or a list of words", []kind{text, list}
	case t.Kind() == reflect.Struct:
		want, kinds = "a mapping with "+or(keysOf(t)), []kind{mapping}
	case t.Kind() == reflect.Slice:
		want, kinds = "a list", []kind{list}
	case t.Kind() == reflect.Bool:
		want, kinds = "true or false", []kind{boolean}
	case t.Kind() == reflect.Int:
		want, kinds = "a whole number", []kind{number}
	default:
		want = "text"
	}
	hint := ""
	switch {
	case n.kind != kinds[0] && n.kind != kinds[len(kinds)-1]:
		if (n.kind == number || n.kind == boolean) && kinds[0] == text {
			hint = fmt.Sprintf("put it in quotes: %q", n.value)
		}
		if n.kind == number && t == durationType {
			hint = fmt.Sprintf("it needs a unit, as in %ss or %sm", n.value, n.value)
		}
		d.fail(n, path, "it is "+n.String(), want, hint)
		return
	case n.kind == text && n.value == "":
		d.fail(n, path, "it is empty", want, "")
		return
	case n.kind == text && strings.Contains(n.value, "\x00"):
		d.fail(n, path, "it has a NUL", want, "")
		return
	}
	switch {
	case t == durationType || t == usdType:
		d.typed(n, path, v, want)
	case t == argvType:
		d.argv(n, path, v)
	case t.Kind() == reflect.Struct:
		d.fields(n, path, v)
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, len(n.items), len(n.items)))
		for i, item := range n.items {
			d.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case t.Kind() == reflect.Bool:
		v.SetBool(strings.EqualFold(n.value, "true"))
	case t.Kind() == reflect.Int:
		i, err := strconv.Atoi(n.value)
		if err != nil || strconv.Itoa(i) != n.value {
			d.fail(n, path, "it is "+n.String(), want, "")
			return
		}
		v.SetInt(int64(i))
	default:
		v.SetString(n.value)
	}
}

// typed reads a scalar by the type's own UnmarshalJSON.
func (d *document) typed(n *node, path string, v reflect.Value, want string) {
	raw := []byte(n.value)
	if n.kind == text {
		raw, _ = json.Marshal(n.value) // a string always has a JSON form
	}
	if err := v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw); err != nil {
		d.fail(n, path, "it is "+n.String(), want, "")
	}
}

func (d *document) argv(n *node, path string, v reflect.Value) {
	if n.kind == text {
		v.Set(reflect.ValueOf(slice.Shell(n.value)))
		return
	}
	argv := slice.Argv{}
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.at[at] = item
		if item.kind != text {
			hint := ""
			if item.kind == number || item.kind == boolean {
				hint = fmt.Sprintf("put it in quotes: %q", item.value)
			}
			d.fail(item, at, "it is "+item.String(), "text", hint)
			continue
		}
		argv = append(argv, item.value)
	}
	v.Set(reflect.ValueOf(argv))
}

func (d *document) fields(n *node, path string, v reflect.Value) {
	known := keysOf(v.Type())
	seen := map[string]int{}
	for i, key := range n.keys {
		at := join(path, key.value)
		if line, twice := seen[key.value]; twice {
			d.errs = append(d.errs, &Error{File: d.file, Line: key.line, Column: key.col, Path: at,
				Got: fmt.Sprintf("duplicate key %.60q (first at line %d)", key.value, line), Want: "every key once"})
			continue
		}
		seen[key.value] = key.line
		field, ok := fieldOf(v, key.value)
		if ok {
			d.value(n.items[i], at, field)
			continue
		}
		hint := ""
		if meant := Suggest(key.value, known); meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
			if !hasKey(n, meant) {
				d.failed[join(path, meant)] = true
			}
		}
		d.errs = append(d.errs, &Error{File: d.file, Line: key.line, Column: key.col, Path: path,
			Got: fmt.Sprintf("unknown key %.60q", key.value), Want: or(known), Hint: hint})
	}
}

func hasKey(n *node, key string) bool {
	for _, k := range n.keys {
		if k.value == key {
			return true
		}
	}
	return false
}

func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = keyOf(t.Field(i))
	}
	sort.Strings(keys)
	return keys
}

func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if keyOf(v.Type().Field(i)) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}
