-- Ids that stand for several contents: there are none, unless a hash failed.
SELECT function FROM function GROUP BY function
HAVING count(DISTINCT coalesce(name, '') || ' ' || coalesce(kind, '') || ' ' || coalesce(line, 0)) > 1
