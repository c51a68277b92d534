package guard

import (
	"path"
	"strings"
)

// language is one that the guard reads.
type language string

const (
	golang     language = "go"
	java       language = "java"
	kotlin     language = "kotlin"
	javascript language = "javascript"
	typescript language = "typescript"
	python     language = "python"
	rust       language = "rust"
	ruby       language = "ruby"
	csharp     language = "csharp"
	php        language = "php"
	swift      language = "swift"
	config     language = "config"

	// Read for the configuration that is written in them.
	groovy language = "groovy"
	toml   language = "toml"
)

var extensions = map[string]language{
	".go": golang, ".java": java, ".kt": kotlin, ".kts": kotlin,
	".js": javascript, ".jsx": javascript, ".mjs": javascript, ".cjs": javascript,
	".ts": typescript, ".tsx": typescript, ".mts": typescript, ".cts": typescript,
	".py": python, ".rs": rust, ".rb": ruby, ".cs": csharp, ".php": php, ".swift": swift,
}

// unread are languages that people write tests in and that the guard does not
// read, by extension.
var unread = map[string]string{
	".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".h": "c", ".hpp": "c++", ".m": "objective-c", ".mm": "objective-c++",
	".scala": "scala", ".clj": "clojure", ".cljs": "clojure", ".ex": "elixir", ".exs": "elixir", ".erl": "erlang", ".hs": "haskell",
	".ml": "ocaml", ".fs": "f#", ".vb": "visual basic", ".dart": "dart", ".lua": "lua", ".pl": "perl", ".pm": "perl", ".t": "perl", ".r": "r", ".R": "r", ".jl": "julia",
	".zig": "zig", ".nim": "nim", ".cr": "crystal", ".groovy": "groovy", ".vue": "vue", ".svelte": "svelte", ".bats": "bats", ".f90": "fortran", ".sol": "solidity", ".elm": "elm", ".d": "d",
}

// languageOf returns the language of a file of source text, or nothing.
func languageOf(name string) language {
	if strings.HasSuffix(name, ".d.ts") || strings.HasSuffix(name, ".min.js") {
		return ""
	}
	return extensions[strings.ToLower(path.Ext(name))]
}

func (l language) script() bool { return l == javascript || l == typescript }

// family is one word for the languages that may replace each other in a file
// or share tests.
func (l language) family() language {
	switch l {
	case typescript:
		return javascript
	case kotlin:
		return java
	default:
		return l
	}
}
