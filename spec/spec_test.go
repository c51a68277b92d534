package spec

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"interlock/machine"
	"interlock/slice"
)

var update = flag.Bool("update", false, "write the golden files")

// read parses a file of testdata as what its name says it is.
func read(name string, data []byte) (any, error) {
	if strings.HasPrefix(name, "policy-") {
		return ParsePolicy(name, data)
	}
	return ParseSlice(name, data)
}

func files(t testing.TB, folder string) map[string][]byte {
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.*"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := map[string][]byte{}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		require.NoError(t, err)
		all[filepath.Base(p)] = data
	}
	return all
}

func names(m map[string][]byte) []string {
	list := make([]string, 0, len(m))
	for n := range m {
		list = append(list, n)
	}
	sort.Strings(list)
	return list
}

func compiled(t *testing.T, k Kind) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(k)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	require.NoError(t, err)
	return s
}

func TestValidFilesPassParserAndSchema(t *testing.T) {
	schemas := map[bool]*jsonschema.Schema{false: compiled(t, SliceFile), true: compiled(t, PolicyFile)}
	all := files(t, "valid")
	for _, name := range names(all) {
		t.Run(name, func(t *testing.T) {
			v, err := read(name, all[name])
			require.NoError(t, err)

			raw := all[name]
			if strings.HasSuffix(name, ".yaml") {
				var doc any
				require.NoError(t, yaml.Unmarshal(bytes.TrimPrefix(raw, []byte("\uFEFF")), &doc))
				raw, err = json.Marshal(doc)
				require.NoError(t, err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
			require.NoError(t, err)
			require.NoError(t, schemas[strings.HasPrefix(name, "policy-")].Validate(doc))

			// As JSON it means the same, with and without positions.
			raw, err = json.Marshal(v)
			require.NoError(t, err)
			if s, ok := v.(slice.Spec); ok {
				require.NoError(t, Validate(s))
				var other slice.Spec
				require.NoError(t, json.Unmarshal(raw, &other))
				require.Equal(t, s, other)
			} else {
				require.NoError(t, ValidatePolicy(v.(slice.Policy)))
			}
		})
	}
}

func TestInvalidFilesSayWhatIsWrong(t *testing.T) {
	all := files(t, "invalid")
	require.GreaterOrEqual(t, len(all), 60)
	var got strings.Builder
	for _, name := range names(all) {
		_, err := read(name, all[name])
		require.Error(t, err, name)
		checkErrors(t, name, all[name], err)
		fmt.Fprintf(&got, "%s\n\n", err)
	}
	const golden = "testdata/invalid.golden"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// checkErrors checks that every error names the file and a place inside it.
func checkErrors(t require.TestingT, name string, data []byte, err error) {
	var list Errors
	require.ErrorAs(t, err, &list)
	require.NotEmpty(t, list)
	require.LessOrEqual(t, len(list), MaxErrors)
	lines := 1 + strings.Count(strings.NewReplacer("\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(string(data)), "\n")
	line := 0
	for _, e := range list {
		require.Equal(t, name, e.File)
		require.GreaterOrEqual(t, e.Line, max(line, 1), e)
		require.LessOrEqual(t, e.Line, lines, e)
		require.GreaterOrEqual(t, e.Column, 1, e)
		require.NotContains(t, e.Error(), "\n")
		line = e.Line
	}
}

func TestTooLargeIsRefusedBeforeParsing(t *testing.T) {
	_, err := ParseSlice("s.yaml", bytes.Repeat([]byte("#"), MaxBytes+1))
	require.EqualError(t, err, "s.yaml:1:1: the file has 1048577 bytes: expected at most 1 MiB")
	many := "repo: /x\nbase: main\ntitle: t\ntasks:\n"
	for i := range MaxTasks + 1 {
		many += fmt.Sprintf("- {id: t%d, criterion: c}\n", i)
	}
	_, err = ParseSlice("s.yaml", []byte(many))
	require.ErrorContains(t, err, "s.yaml:5:1: tasks: there are 1001 tasks: expected at most 1000")
}

// A worker reads policies that it does not know: none may keep it busy.
func TestHostileDocumentsAreReadInTime(t *testing.T) {
	const n = MaxBytes - 100
	for name, doc := range map[string]string{
		"brackets": strings.Repeat("[", n), "braces": strings.Repeat("{a: ", n/4), "dashes": strings.Repeat("- ", n/2),
		"keys": "{" + strings.Repeat(`"a":1,`, n/6-5) + `"b":1}`, "lines": "{\"a\":[\n" + strings.Repeat("1,\n", n/3-10) + "1]}",
		"comments": "a:\n" + strings.Repeat("  - b\n # x\n", n/11), "cut off": `{"a":` + strings.Repeat("[1,", n/3-5),
	} {
		for _, file := range []string{"s.yaml", "s.json"} {
			start := time.Now()
			_, err := ParseSlice(file, []byte(doc))
			require.Error(t, err)
			require.Less(t, time.Since(start), 20*time.Second, name)
		}
	}
}

func TestValidateHasTheSameRules(t *testing.T) {
	good := slice.Spec{Repo: "/srv/shop", Base: "main", Title: "t", Tasks: []slice.Task{{ID: "a", Criterion: "c"}}}
	require.NoError(t, Validate(good))
	for want, change := range map[string]func(*slice.Spec){
		`id: "a/b": it has other characters: expected at most 100 letters`: func(s *slice.Spec) { s.ID = "a/b" },
		`repo: "-x" begins with a dash`:                                    func(s *slice.Spec) { s.Repo = "-x" },
		`title: it has a line break or control character`:                  func(s *slice.Spec) { s.Title = "a\nb" },
		`tasks: there is no task`:                                          func(s *slice.Spec) { s.Tasks = nil },
		`tasks[1].id: duplicate id "a" (first as tasks[0].id)`:             func(s *slice.Spec) { s.Tasks = append(s.Tasks, s.Tasks[0]) },
		`tasks[0].criterion: it has a control character`:                   func(s *slice.Spec) { s.Tasks = []slice.Task{{ID: "a", Criterion: "\x00"}} },
		`policy.checks[0].run: "true" measures nothing`:                    func(s *slice.Spec) { s.Policy = &slice.Policy{Checks: []slice.Command{{Run: slice.Shell("true")}}} },
		`policy.checks[0].run: there is no command`:                        func(s *slice.Spec) { s.Policy = &slice.Policy{Checks: []slice.Command{{}}} },
		`policy.checks[0].timeout: it is -1ns`: func(s *slice.Spec) {
			s.Policy = &slice.Policy{Checks: []slice.Command{{Run: slice.Argv{"a"}, Timeout: -1}}}
		},
		`allow_removed_tests[0]: "*" means every test`: func(s *slice.Spec) { s.AllowRemovedTests = []string{"*"} },
		`policy.checks[0].retries: it is 6`: func(s *slice.Spec) {
			s.Policy = &slice.Policy{Checks: []slice.Command{{Run: slice.Argv{"a"}, Retries: 6}}}
		},
	} {
		s := good
		change(&s)
		require.ErrorContains(t, Validate(s), want)
	}
}

// TestKeysOfTypesAndSchemasAreTheSame walks types and schemas side by side.
func TestKeysOfTypesAndSchemasAreTheSame(t *testing.T) {
	for k, typ := range map[Kind]reflect.Type{SliceFile: reflect.TypeFor[slice.Spec](), PolicyFile: reflect.TypeFor[slice.Policy]()} {
		var doc map[string]any
		require.NoError(t, json.Unmarshal(Schema(k), &doc))
		if k == PolicyFile {
			doc = map[string]any{"$ref": "#/$defs/policy", "$defs": doc["$defs"]}
		}
		seen := map[reflect.Type]bool{}
		defs := doc["$defs"].(map[string]any)
		var walk func(at string, typ reflect.Type, s map[string]any)
		walk = func(at string, typ reflect.Type, s map[string]any) {
			if ref, ok := s["$ref"].(string); ok {
				s = defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
			}
			switch {
			case typ.Kind() == reflect.Pointer:
				walk(at, typ.Elem(), s)
			case typ == argvType || typ == usdType || typ == durationType:
			case typ.Kind() == reflect.Slice:
				require.Equal(t, "array", s["type"], at)
				walk(at+"[]", typ.Elem(), s["items"].(map[string]any))
			case typ.Kind() == reflect.Struct && !seen[typ]:
				seen[typ] = true
				props := s["properties"].(map[string]any)
				keys := make([]string, 0, len(props))
				for key := range props {
					keys = append(keys, key)
				}
				sort.Strings(keys)
				require.Equal(t, keysOf(typ), keys, at)
				require.Equal(t, false, s["additionalProperties"], at)
				for i := range typ.NumField() {
					key := keyOf(typ.Field(i))
					walk(at+"."+key, typ.Field(i).Type, props[key].(map[string]any))
				}
			case typ.Kind() == reflect.Int:
				require.Equal(t, "integer", s["type"], at)
			case typ.Kind() == reflect.Bool:
				require.Equal(t, "boolean", s["type"], at)
			}
		}
		walk(string(k), typ, doc)
	}
	require.Nil(t, Schema("other"))
}

func TestSchemasShareTheirDefinitions(t *testing.T) {
	var a, b struct {
		Defs map[string]any `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(Schema(SliceFile), &a))
	require.NoError(t, json.Unmarshal(Schema(PolicyFile), &b))
	delete(a.Defs, "task")
	require.Equal(t, b.Defs, a.Defs)
}

func TestSchemasRefuse(t *testing.T) {
	for k, docs := range map[Kind][]string{
		SliceFile:  {`{}`, `{"repo":"/x","base":"main","title":"t","tasks":[]}`, `{"repo":"/x","base":"main","title":"t","tasks":[{"id":"a","criterion":"c"}],"x":1}`},
		PolicyFile: {`{}`, `{"agents":{"implementer":{"use":"command","run":"a"}},"checks":[{"run":"a"}]}`, `{"agents":{"implementer":{"use":"command","run":"a"},"judges":[{"use":"command","run":"a"}]},"checks":[]}`},
	} {
		s := compiled(t, k)
		for _, doc := range docs {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
			require.NoError(t, err)
			require.Error(t, s.Validate(v), doc)
		}
	}
}

func TestRules(t *testing.T) {
	var p slice.Policy
	require.Equal(t, machine.Rules{Budgets: machine.DefaultBudgets(), CapMicroUSD: 20_000_000, DeliverTo: machine.ToBranch}, Rules(slice.Spec{}, p))
	zero, one, usd := 0, 1, slice.USD(7)
	p.Budgets = slice.Budgets{Checks: &zero, Judge: &one, USD: &usd}
	p.E2E = []slice.Command{{Run: slice.Argv{"a"}}}
	p.E2EUnmeasured = slice.E2EDelivers
	p.Deliver.To = "publish"
	p.Gates.Merge = true
	r := Rules(slice.Spec{AllowRemovedTests: []string{"a"}}, p)
	want := machine.Rules{Budgets: machine.DefaultBudgets(), CapMicroUSD: 7, DeliverTo: machine.ToPublish, E2E: true, DeliverUnmeasured: true, PlanGate: true, MergeGate: true}
	want.Budgets.Checks, want.Budgets.Judge = 0, 1
	require.Equal(t, want, r)
}

func TestDefaultIDIsAlwaysAnID(t *testing.T) {
	require.Equal(t, "shop-1a2b3c4d.fix-the-typo-in-v2", DefaultID("shop-1a2b3c4d", "Fix the typo in `v2`!"))
	require.NotEqual(t, DefaultID("k", "修正"), DefaultID("k", "错误"))
	require.NotEqual(t, DefaultID("k", strings.Repeat("a", 300)), DefaultID("k", strings.Repeat("a", 301)))
	require.NoError(t, CheckID(DefaultID("con", "x")))
	rapid.Check(t, func(t *rapid.T) {
		require.NoError(t, CheckID(DefaultID(rapid.String().Draw(t, "key"), rapid.String().Draw(t, "title"))))
	})
}

func TestGitAllowsEveryBaseAndID(t *testing.T) {
	allowed := func(name string) bool {
		cmd := exec.Command("git", "check-ref-format", "refs/heads/"+name)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
		return cmd.Run() == nil
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.StringMatching(`(-|\.|/|@|\{|~|\^|:|\?|\*|\[|\\| |a|Z|0|\.lock|é|\x7f){1,5}`).Draw(t, "name")
		d := &document{failed: map[string]bool{}}
		if d.base("base", v); len(d.errs) == 0 || CheckID(v) == nil {
			require.True(t, allowed(v), v)
		}
	})
}

func TestNameOf(t *testing.T) {
	for want, run := range map[string]slice.Argv{
		"go-test":            slice.Shell("go test ./..."),
		"golangci-lint-run":  {"/usr/bin/golangci-lint", "run"},
		"check-":             slice.Shell("??"),
		"check-con":          {"con"},
		"bash-e-c-make-test": {"bash", "-e", "-c", "make test"},
		"a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p-q-r-s-t": slice.Shell("a b c d e f g h i j k l m n o p q r s t u v"),
	} {
		require.Equal(t, want, NameOf(slice.Command{Run: run}))
	}
	require.Equal(t, "own", NameOf(slice.Command{Name: "own"}))
}

func TestConstant(t *testing.T) {
	for _, fine := range []string{"make test", "make test && true", "true && make test", "make test 2>&1", `grep -q "; true" x`, "make test; exit", "./true", "make test || false", "test -z \"$(gofmt -l . || true)\""} {
		require.Empty(t, constant(slice.Shell(fine)), fine)
	}
	require.Empty(t, constant(slice.Argv{"make", "true"}))
}

func TestSuggest(t *testing.T) {
	known := []string{"criterion", "details", "id"}
	require.Equal(t, "criterion", Suggest("critereon", known))
	require.Equal(t, "criterion", Suggest("Criterium", known))
	require.Equal(t, "id", Suggest("ids", known))
	require.Equal(t, "title", Suggest("titel", []string{"tasks", "title"}))
	require.Empty(t, Suggest("whatever", known))
	require.Equal(t, 3, distance("kitten", "sitting"))
}

func FuzzParseSlice(f *testing.F) {
	fuzz(f, func(n string, b []byte) error { _, err := ParseSlice(n, b); return err })
}
func FuzzParsePolicy(f *testing.F) {
	fuzz(f, func(n string, b []byte) error { _, err := ParsePolicy(n, b); return err })
}

func fuzz(f *testing.F, parse func(string, []byte) error) {
	for _, folder := range []string{"valid", "invalid"} {
		for _, data := range files(f, folder) {
			if len(data) < 5000 {
				f.Add(data, false)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, asJSON bool) {
		name := "f.yaml"
		if asJSON {
			name = "f.json"
		}
		if err := parse(name, data); err != nil {
			checkErrors(t, name, data, err)
		}
	})
}
