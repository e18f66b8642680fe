// Package guide types the commands of the pages for beginners, on a fresh kcp, and compares the output with the
// pages.
//
// The language of a fenced block decides what happens with it:
//
//	sh             is typed, in the page's order, into one shell; no command may fail
//	sh background  is typed into a shell of its own, where it goes on until the test ends
//	none           shows what the commands above print: they must print its first line
//
// Every other block is for reading: bash is for commands that need what no test machine has,
// such as a registry or a cluster that runs pods. Commands run at the root of a copy of the
// repository, so that nobody's .run is touched.
package guide
