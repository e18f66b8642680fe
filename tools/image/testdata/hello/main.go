// Command hello stands for the controller in the tests of the image.
package main

func main() { println("hello") }
