package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// terminal says what may be written to a stream: colours and lines that are
// overwritten only where somebody sees them.
type terminal struct {
	live  bool // it is a terminal that can overwrite a line
	color bool
	width int // columns; 0 if it is no terminal
}

func terminalOf(w io.Writer) terminal {
	f, ok := w.(*os.File)
	if !ok {
		return terminal{}
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return terminal{}
	}
	t := terminal{live: os.Getenv("TERM") != "dumb", width: int(size.Col)}
	if t.width == 0 {
		t.width = 80
	}
	t.color = t.live && os.Getenv("NO_COLOR") == ""
	return t
}

func (t terminal) paint(code, s string) string {
	if !t.color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t terminal) red(s string) string    { return t.paint("31", s) }
func (t terminal) green(s string) string  { return t.paint("32", s) }
func (t terminal) yellow(s string) string { return t.paint("33", s) }
func (t terminal) bold(s string) string   { return t.paint("1", s) }
func (t terminal) dim(s string) string    { return t.paint("2", s) }

// plain makes foreign text fit to be shown on one line: no control
// characters, which could write what they like on a terminal.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// clip shortens s to n characters.
func clip(s string, n int) string {
	if n < 1 {
		return ""
	}
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// pad fills s with spaces to n characters.
func pad(s string, n int) string {
	if missing := n - len([]rune(s)); missing > 0 {
		return s + strings.Repeat(" ", missing)
	}
	return s
}
