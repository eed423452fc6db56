// Package terminal prints text for people: it filters text from outside, and has styles, Markdown,
// tables and progress bars that fit the terminal.
//
// Models, tools, stored sessions and upstreams write text that no person has reviewed. On a terminal
// such text may only appear: it must not move the cursor, change the title or the clipboard, or hide
// characters from the person who reads or approves it. So [Output] filters each write, and
// [Output.Print] passes this package's styles and no other control sequence.
package terminal
