package local

import (
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/workspaces"
)

// User is somebody who can log in to a kcp with a token, and has no rights there
// but those granted to the name or to all authenticated users.
type User struct {
	Name  string
	Token string
}

// at is the access of a user to a workspace of the kcp that admin speaks to.
func (u User) at(admin *rest.Config, workspace string) *rest.Config {
	cfg := rest.AnonymousClientConfig(workspaces.At(admin, workspace))
	cfg.BearerToken = u.Token
	return cfg
}

// people are the users of a kcp.
type people struct {
	known []User
	taken atomic.Int64 // how many were given out
}

// TakeUser gives out a user that nobody else has been given. It is safe for concurrent use.
func (p *people) TakeUser() (User, error) {
	n := int(p.taken.Add(1))
	if n > len(p.known) {
		return User{}, fmt.Errorf("all %d users of this kcp are taken", len(p.known))
	}
	return p.known[n-1], nil
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
