// Command hello stands for the controller in the tests of the image.
package main

var version string

func main() { println("hello", version) }
