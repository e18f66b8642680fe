package local

import (
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// User is somebody who can log in to a kcp with a token, and has no rights there
// but those granted to the name or to all authenticated users.
type User struct {
	Name  string
	Token string
}

// users reads the users in a token file of kcp, which is made, with n users, if it
// isn't there. kcp reads it only when it starts.
func users(file string, n int) ([]User, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return makeUsers(file, n)
	}
	if err != nil {
		return nil, err
	}
	records, err := csv.NewReader(strings.NewReader(string(data))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("users in %s: %w", file, err)
	}
	found := make([]User, 0, len(records))
	for _, record := range records {
		found = append(found, User{Token: record[0], Name: record[1]})
	}
	return found, nil
}

func makeUsers(file string, n int) ([]User, error) {
	made := make([]User, n)
	var lines strings.Builder
	for i := range made {
		made[i] = User{Name: fmt.Sprintf("user-%d", i+1), Token: rand.Text()}
		fmt.Fprintf(&lines, "%s,%s,%s\n", made[i].Token, made[i].Name, made[i].Name)
	}
	return made, os.WriteFile(file, []byte(lines.String()), 0o600)
}
