-- What functions are called, of those that a process ran.
SELECT function, max(kind) AS kind, max(name) AS name, max(file) AS file, max(line) AS line,
       max(CASE WHEN own THEN 1 ELSE 0 END) AS own
FROM function WHERE process IN ({processes}) AND function IN ({functions}) GROUP BY function ORDER BY function
