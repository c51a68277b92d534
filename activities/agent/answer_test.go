package agent

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"interlock/slice"
)

func TestSchemasAreValid(t *testing.T) {
	for _, r := range Roles() {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(r)))
		require.NoError(t, err, r)
		c := jsonschema.NewCompiler()
		meta, err := c.Compile("https://json-schema.org/draft/2020-12/schema")
		require.NoError(t, err)
		require.NoError(t, meta.Validate(doc), r)
	}
	require.Nil(t, Schema("priest"))
}

const goodJudge = `{"scores":[{"criterion":"c","score":4,"reason":"r"}],"findings":[{"severity":"correction","file":"a.go","line":3,"claim":"x"}],"cost_usd":0.01}`

func TestReadAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		role  Role
		doc   string
		wrong string // "" means that it fits
	}{
		{"judge", Judge, goodJudge, ""},
		{"whole numbers in any spelling", Judge, strings.Replace(goodJudge, `"score":4`, `"score":4.0`, 1), ""},
		{"no findings", Judge, `{"scores":[{"criterion":"c","score":5,"reason":""}],"findings":[]}`, ""},
		{"advisor", Advisor, `{"advice":"begin with the test"}`, ""},
		{"reconciler", Reconciler, `{"status":"done"}`, ""},
		{"half a point", Judge, strings.Replace(goodJudge, `"score":4`, `"score":4.5`, 1), "at /scores/0/score: "},
		{"six of five", Judge, strings.Replace(goodJudge, `"score":4`, `"score":6`, 1), "at /scores/0/score: "},
		{"a score in words", Judge, strings.Replace(goodJudge, `"score":4`, `"score":"4"`, 1), "at /scores/0/score: "},
		{"a verdict of its own", Judge, strings.Replace(goodJudge, `"cost_usd"`, `"approved":true,"cost_usd"`, 1), "at the top: "},
		{"another judge's name", Judge, strings.Replace(goodJudge, `"claim"`, `"judge":"x","claim"`, 1), "at /findings/0: "},
		{"other capitals", Judge, strings.Replace(goodJudge, `"findings"`, `"Findings"`, 1), "at the top: "},
		{"severity", Judge, strings.Replace(goodJudge, "correction", "fatal", 1), "at /findings/0/severity: "},
		{"negative line", Judge, strings.Replace(goodJudge, `"line":3`, `"line":-3`, 1), "at /findings/0/line: "},
		{"line break in a file name", Judge, strings.Replace(goodJudge, "a.go", `a\n.go`, 1), "at /findings/0/file: "},
		{"twice, deep down", Judge, strings.Replace(goodJudge, `"line":3`, `"line":3,"line":4`, 1), `at /findings/0: the key "line" is there twice`},
		{"an array", Judge, `[]`, "at the top: "},
		{"null", Judge, `null`, "at the top: "},
		{"empty advice", Advisor, `{"advice":""}`, "at /advice: "},
		{"a session that is an option", Advisor, `{"advice":"x","session":"--yolo"}`, "at /session: "},
		{"infinite", Advisor, `{"advice":"x","cost_usd":Infinity}`, "it is not one JSON document"},
		{"cost in words", Advisor, `{"advice":"x","cost_usd":"0.1"}`, "at /cost_usd: "},
		{"a long number", Advisor, `{"advice":"x","cost_usd":0.` + strings.Repeat("1", 100) + `}`, "at /cost_usd: a number out of all bounds"},
		{"deep", Advisor, strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "nested more than 32 deep"},
		{"deeper than JSON goes", Advisor, strings.Repeat("[", 500_000), "it is not one JSON document"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := readAnswer(c.role, []byte(c.doc), nil)
			require.NoError(t, err)
			if c.wrong == "" {
				require.NoError(t, s.wrong)
				require.JSONEq(t, strings.Replace(c.doc, "4.0", "4", 1), string(s.raw))
				return
			}
			require.ErrorContains(t, s.wrong, c.wrong)
			require.Empty(t, s.raw)
		})
	}
}

func TestWholeNumbersDecode(t *testing.T) {
	s, err := readAnswer(Judge, []byte(strings.Replace(goodJudge, `"score":4`, `"score":4e0`, 1)), nil)
	require.NoError(t, err)
	require.NoError(t, s.wrong)
	var a JudgeAnswer
	require.NoError(t, json.Unmarshal(s.raw, &a))
	require.Equal(t, 4, a.Scores[0].Score)
	require.Equal(t, slice.Finding{Severity: slice.Correction, File: "a.go", Line: 3, Claim: "x"}, a.Findings[0])
}

func TestDollars(t *testing.T) {
	for _, c := range []struct {
		in   string
		want slice.USD
		ok   bool
	}{
		{"0", 0, true}, {"12", 12_000_000, true}, {"0.000001", 1, true}, {"0.0000001", 1, true}, {"1e-9", 1, true},
		{"2.5E+1", 25_000_000, true}, {"0.1234567", 123_457, true}, {"1000", 1_000_000_000, true},
		{"1000.1", 0, false}, {"-0.1", 0, false}, {"1e30", 0, false}, {"x", 0, false},
	} {
		got, ok := dollars(json.Number(c.in))
		require.Equal(t, c.ok, ok, c.in)
		if ok {
			require.Equal(t, c.want, got, c.in)
		}
	}
}

func FuzzReadAnswer(f *testing.F) {
	for _, doc := range []string{goodJudge, `{"status":"done","cost_usd":1e-3}`, `{"advice":"x"}`, `{"a":{"a":[1,2,{"b":null}]}}`, "", "nul", "\xff", `{"status":"done"}{}`, `{"cost_usd":-1e30}`} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		for _, r := range Roles() {
			s, err := readAnswer(r, []byte(doc), nil)
			require.NoError(t, err)
			require.Equal(t, s.wrong == nil, len(s.raw) > 0)
			require.True(t, s.cost >= 0 && s.cost <= absurd)
			if s.wrong != nil {
				continue
			}
			var typed any
			switch r {
			case Implementer:
				typed = &ImplementAnswer{}
			case Reconciler:
				typed = &ReconcileAnswer{}
			case Judge:
				typed = &JudgeAnswer{}
			case Advisor:
				typed = &AdviseAnswer{}
			}
			require.NoError(t, json.Unmarshal(s.raw, typed), "what fits the schema fits the type")
			again, err := readAnswer(r, s.raw, nil)
			require.NoError(t, err)
			require.Equal(t, s, again, "reading is stable")
		}
	})
}

func TestFits(t *testing.T) {
	require.NoError(t, Fits(Judge, []byte(goodJudge)))
	require.EqualError(t, Fits(Implementer, []byte(`{"status":"perhaps"}`)), "at /status: value must be one of 'done', 'failed', 'question'")
	require.ErrorContains(t, Fits("priest", []byte(`{}`)), "priest")
}
