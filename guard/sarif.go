package guard

import (
	"net/url"
	"slices"
)

// SARIF is a report in the Static Analysis Results Interchange Format 2.1.0,
// which code hosts show beside the lines.
type SARIF struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
	ColumnKind  string            `json:"columnKind"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version,omitempty"`
	InformationURI string      `json:"informationUri,omitempty"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string       `json:"id"`
	ShortDescription sarifMessage `json:"shortDescription"`
}

type sarifInvocation struct {
	ExecutionSuccessful bool                `json:"executionSuccessful"`
	Notifications       []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   string       `json:"level"`
	Message sarifMessage `json:"message"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string            `json:"ruleId"`
	RuleIndex int               `json:"ruleIndex"`
	Level     string            `json:"level"`
	Message   sarifMessage      `json:"message"`
	Locations []sarifLocation   `json:"locations"`
	Prints    map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI       string `json:"uri"`
	URIBaseID string `json:"uriBaseId"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

// SARIF returns the report for code hosts. Version is that of the program.
func (r Report) SARIF(version string) SARIF {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "interlock guard", Version: version, Rules: []sarifRule{}}},
		Invocations: []sarifInvocation{{ExecutionSuccessful: true}},
		Results:     []sarifResult{},
		ColumnKind:  "unicodeCodePoints",
	}
	rules := map[string]int{}
	for _, f := range r.Findings {
		k, ok := rules[f.Kind]
		if !ok {
			k = len(run.Tool.Driver.Rules)
			rules[f.Kind] = k
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: f.Kind, ShortDescription: sarifMessage{about(f.Kind)}})
		}
		level := "warning"
		if f.Verdict == Tampered {
			level = "error"
		}
		text := f.Why
		if f.Test != "" {
			text = f.Test + ": " + f.Why
		}
		at := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{URI: (&url.URL{Path: f.File}).EscapedPath(), URIBaseID: "%SRCROOT%"}}}
		if f.Line > 0 {
			at.Physical.Region = &sarifRegion{f.Line}
		}
		if f.Test != "" {
			at.Logical = []sarifLogical{{f.Test}}
		}
		run.Results = append(run.Results, sarifResult{RuleID: f.Kind, RuleIndex: k, Level: level, Message: sarifMessage{text}, Locations: []sarifLocation{at}, Prints: map[string]string{"kindTestFile/v1": f.Kind + "|" + f.Test + "|" + f.File}})
	}
	for _, u := range r.Unread {
		run.Invocations[0].Notifications = append(run.Invocations[0].Notifications, sarifNotification{Level: "note", Message: sarifMessage{"not read: " + u.Language}})
	}
	return SARIF{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

// about says in one sentence what a kind of finding is.
func about(kind string) string {
	if s, ok := kinds[kind]; ok {
		return s
	}
	return kind
}

// Kinds returns the words for what the guard finds, in the order of the alphabet.
func Kinds() []string {
	out := make([]string, 0, len(kinds))
	for k := range kinds {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// kinds says what each word means.
var kinds = map[string]string{
	"annotation-lost":           "A test lost what makes the runner collect it.",
	"body-replaced":             "A check was replaced by another one.",
	"build-skip-flag":           "The build skips tests, or ignores that they fail.",
	"ci-job-moved":              "Continuous integration runs the tests elsewhere, or in parts.",
	"ci-swallowed":              "Continuous integration no longer runs the tests, or ignores that they fail.",
	"command-changed":           "The test command runs less, or its failure is lost.",
	"commented-out":             "A test became a comment or a string.",
	"conditional-assertion":     "A check runs only under a new condition.",
	"config-narrowed-plausibly": "The configuration measures less, maybe for a reason.",
	"count-preserving-swap":     "A test is gone and another one took its place.",
	"coverage-lowered":          "The floor of the coverage was lowered, or less is counted.",
	"dead-branch":               "A check stands under a condition that never holds.",
	"deleted-file":              "A file of tests is gone.",
	"deleted-test":              "A test is gone.",
	"detached-assertion":        "Nobody waits for a check.",
	"duplicate-test-removed":    "A test that another one repeats word for word is gone.",
	"early-return":              "A test returns before its checks.",
	"emptied-body":              "A test has an empty body.",
	"excluded-by-build":         "A file of tests is not built by default any more.",
	"excluded-by-config":        "The configuration of the runner leaves tests out.",
	"expected-edited":           "An expected value was changed, and the code was not.",
	"expected-failure":          "The failure of a test counts as expected.",
	"expected-value-with-code":  "An expected value was changed together with code.",
	"feature-and-test-removed":  "A test left together with the code that it was about.",
	"focus-only":                "A focus on some tests silences the others.",
	"frozen":                    "A frozen path changed.",
	"helper-neutered":           "A helper of tests no longer checks.",
	"logged-instead-of-failed":  "A failure is only written to a log.",
	"lookalike-name":            "The name of a test only looks the same.",
	"mocked-subject":            "What is tested was replaced by a stand-in.",
	"module-boundary":           "Tests lie outside of what a run from the root reaches.",
	"moved-out-of-collection":   "Tests were moved to where the runner does not look.",
	"new-conditional-skip":      "A test runs only under a condition.",
	"new-platform-skip":         "A test is skipped on some platforms.",
	"protected":                 "A protected path changed.",
	"quarantine-list":           "A list leaves tests out.",
	"removed-assertion":         "A check is gone.",
	"renamed-uncollected":       "A test was renamed so that the runner passes it over.",
	"result-forged":             "The outcome of tests is forged.",
	"retry-until-green":         "Tests are repeated until they pass.",
	"runner-exit":               "The process ends with success before the tests ran.",
	"shadowed-duplicate":        "A second test of the same name hides the first.",
	"shrunk-cases":              "Rows are gone from the table of a test.",
	"skip-annotation":           "A test is marked to be skipped.",
	"skip-call":                 "A test skips itself.",
	"snapshot-gutted":           "A stored result was overwritten, and the code was not changed.",
	"snapshot-with-code":        "A stored result was changed together with code.",
	"suite-level-skip":          "Everything around a test skips it.",
	"swallowed-exception":       "A failed check is caught and dropped.",
	"tag-excluded":              "A tag is left out by the configuration of the runner.",
	"tautology":                 "A check always holds.",
	"test-rewritten":            "A test gave way to another one together with code.",
	"time-or-grader-patched":    "The clock or the grader of tests is replaced.",
	"timeout-raised":            "A time limit was raised.",
	"todo-pending":              "A test is marked as still to be done.",
	"tolerance-changed":         "A tolerance was widened.",
	"unreadable-config":         "A file of configuration cannot be read any more.",
	"weakened-assertion":        "A check holds for more than before.",
}
